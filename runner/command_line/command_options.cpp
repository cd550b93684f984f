// One function a group of options; commands are made of these.
#include "runner/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "runner/command/commands.h"
#include "runner/command_line/completion.h"
#include "runner/command_line/option_checks.h"
#include "runner/doctor/doctor.h"

namespace ddprun {

namespace {

/// An option or an argument. `type`: what its help calls a value.
template <class T>
CLI::Option* add(CLI::App& command, const std::string& name, T& value, const std::string& type,
                 const std::string& help) {
  CLI::Option* option = command.add_option(name, value, help)->type_name(type);
  constexpr bool kReal = std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>;
  constexpr bool kList = std::is_same_v<T, std::vector<std::string>>;  // readers have words for it
  if (!kList && !option->get_positional()) option->check(kNotEmpty);
  if constexpr (std::is_same_v<T, std::uint64_t>) return option->transform(whole_number<T>());
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::optional<std::int64_t>>) {
    return option->transform(whole_number<std::int64_t>());
  }
  return kReal ? option->check(kFinite) : option;
}

void add_common_options(CLI::App& command, Request& request) {
  // Repeatable options take one value each time: `--set a=1 file.yaml` must leave the file alone.
  add(command, "--plugin-path", request.plugin_paths, kFolderValue,
      "Look for plugins in DIR first (repeatable)")
      ->allow_extra_args(false);
  // Counted after parsing: versions of CLI11 differ in what a repeated flag on a number gives.
  command.add_flag("-v,--verbose")->description("Say more; -vv: everything");
}

void add_files(CLI::App& command, Request& request) {
  add(command, "files", request.paths, kFileValue,
      "Experiments: YAML files, or folders of them with their subfolders")
      ->required();
}

void add_experiment_options(CLI::App& command, Request& request) {
  add(command, "--set", request.overrides, kOverrideValue,
      "Replace a value of the YAML, as in train.steps=20 (repeatable)")
      ->allow_extra_args(false);
  add(command, "--output", request.output, kFolderValue,
      "Write results under DIR instead of the YAML's output.dir");
  add_common_options(command, request);
}

/// An argument that is one of names, which its help shows; `but`: one that this command has not.
template <NamedEnum E>
void add_choice(CLI::App& command, const std::string& name, E& choice, const std::string& help,
                std::optional<E> but = {}) {
  std::vector<std::string> names(kChoiceNames<E>.begin(), kChoiceNames<E>.end());
  if (but) std::erase(names, name_of(*but));
  command
      .add_option_function<std::string>(
          name, [&choice](const std::string& text) { choice = value_named<E>(text); }, help)
      ->type_name(list_text(names, "|"))
      ->check(CLI::IsMember(names).description(""));
}

void add_columns(CLI::App& command, Request& request) {
  add(command, "--columns", request.columns, "N",
      "Width of the table; 0: no limit (default: the terminal's, 100 in a pipe)")
      ->check(between(0, 100000));
}

void add_format_options(CLI::App& command, Request& request, std::optional<ReportFormat> but = {}) {
  add_choice(command, "--format", request.format,
             "What is printed: a table (the default), or all of its rows for other programs", but);
  add_columns(command, request);
}

void add_results(CLI::App& command, Request& request) {
  add(command, "results", request.paths, kFolderValue,
      "Result folders, their result.json, or folders of results, of which the latest "
      "is taken")
      ->required();
  add_common_options(command, request);
}

void add_report(CLI::App& command, Request& request) {
  add(command, "-o,--out", request.output, "FILE",
      "The file to write (default: report.html; -: stdout)");
  add_results(command, request);
}

void add_run_options(CLI::App& command, Request& request) {
  add_experiment_options(command, request);
  command.add_flag("--resume", request.resume, "Take over rows that an earlier result already has");
  add(command, "--max-restarts", request.max_restarts, "N",
      "Start a row's ranks again so often if they fail, from its last checkpoint")
      ->check(between(0, 1000000));
  command.add_flag("--quiet", request.quiet, "Only the table, and errors");
  add_format_options(command, request);
}

void add_tuning(CLI::App& command, Request& request) {
  add(command, "file", request.paths, kFileValue, "An experiment that trains: a YAML file")
      ->expected(1)
      ->required();
  add(command, "--over", request.over, "KEY,...",
      "Keys whose values are tried, as in strategy,train.accumulate=1|2 (default: the "
      "strategy and its buckets)");
  add(command, "--minutes", request.minutes, "N", "After which no run begins")
      ->capture_default_str()
      ->check(between(0.01, 1e5));
  command.add_flag("--quiet", request.quiet, "Without progress");
  add_experiment_options(command, request);
  add_format_options(command, request);
}

void add_account_options(CLI::App& command, Request& request) {
  add(command, "--ranks", request.account.ranks, "N,...", "For so many ranks each, as in 1,2,8");
  add(command, "--memory", request.account.memory, "SIZE",
      "What a rank has, as in 80GB: says whether it fits");
  add(command, "--link", request.account.link, "RATE,TIME",
      "Bandwidth and latency between ranks, as in 200GB/s,5us: how long a step takes");
  add(command, "--host-link", request.account.host_link, "RATE,TIME",
      "The same between hosts (with --hosts)");
  add(command, "--tflops", request.account.tflops, "X",
      "Of a rank's matrix products (with --link); else what this machine gives");
  add(command, "--memory-rate", request.account.memory_rate, "RATE",
      "Of a rank's memory (with --tflops), as in 3TB/s; else all is in --tflops");
  add(command, "--hosts", request.account.hosts, "NxN", "Hosts x ranks of each, as in 8x8");
  add_experiment_options(command, request);
  add_format_options(command, request);
}

void add_checkpoint(CLI::App& command, Request& request) {
  add(command, "path", request.paths, kFolderValue,
      "A checkpoint, or a folder of them, of which the latest is taken")
      ->expected(1)
      ->required();
  add_common_options(command, request);
}

void add_texts(CLI::App& command, Request& request) {
  add(command, "--pattern", request.pattern, "NAME",
      "How text is split: gpt2, cl100k, o200k or a regular expression; a "
      "tokenizer.json has its own");
  add(command, "--out", request.output, kFileValue, "The file to write (-: stdout)")->required();
  add(command, "texts", request.paths, kFileValue, "Texts, one after another")->required();
  add_common_options(command, request);
}

void add_sampling(CLI::App& command, Request& request) {
  Sampling& sampling = request.sampling;
  command.add_option("--prompt", request.prompt, "What the model goes on with")
      ->type_name("TEXT")
      ->required();
  add(command, "--tokens", sampling.tokens, "N", "How many tokens it writes")
      ->capture_default_str()
      ->check(between(1, 1000000));
  add(command, "--temperature", sampling.temperature, "X",
      "Logits are divided by it before a token is drawn; 0: the likeliest token")
      ->capture_default_str()
      ->check(between(0.0, 1e6));
  add(command, "--top-p", sampling.top_p, "X",
      "Draw among the fewest tokens that have this probability together")
      ->capture_default_str()
      ->check(between(0.0, 1.0));
  add(command, "--seed", sampling.seed, "N", "Of the draws")->capture_default_str();
}

void add_new_plugin(CLI::App& command, Request& request) {
  add(command, "kind", request.kind, "strategy|precision|attention", "What it is")->required();
  add(command, "name", request.name, "NEW_NAME", "Its name in YAML, as in my_strategy")->required();
  add(command, "-o,--output", request.output, kFolderValue,
      "The folder to write, a new or an empty one (default: ./NEW_NAME)");
  add_common_options(command, request);
}

}  // namespace

void declare_commands(CLI::App& app, Request& request) {
  const auto command = [&](const char* name, const char* help, int (*run)(const Request&),
                           bool keeps_results = false) -> CLI::App& {
    CLI::App* const out = app.add_subcommand(name, help);
    out->callback([&request, run, keeps_results] {
      request.command = run;
      request.keeps_results = keeps_results;
    });
    return *out;
  };
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text,
                       "Versions of ddprun, torch, gloo and the compiler");
  app.add_flag_callback(
      "--cmake-dir",
      [] {
        std::cout << cmake_folder() << "\n";
        throw CLI::Success();
      },
      "The folder of the CMake package, for find_package(ddprun PATHS ...)");
  add_run_options(
      command("quickstart", "Run configs/quickstart.yaml, which comes with ddprun, into ./results",
              quickstart_command, /*keeps_results=*/true),
      request);

  CLI::App& run = command("run", "Run experiments (the default: `ddprun FILE.yaml`)", run_batch,
                          /*keeps_results=*/true);
  add_files(run, request);
  add_run_options(run, request);

  CLI::App& validate =
      command("validate", "Check experiments without running them (-v: show them resolved)",
              validate_command);
  add_files(validate, request);
  add_experiment_options(validate, request);

  CLI::App& account = command(
      "account", "Say what memory and collectives experiments would take, without running them",
      account_command);
  add_files(account, request);
  add_account_options(account, request);

  CLI::App& data = command(
      "data", "Say which tokens of which file each rank reads in a step, without running it",
      data_command);
  add_files(data, request);
  add(data, "--step", request.step, "N", "Which step, counted from 0 (default: 0)");
  add_experiment_options(data, request);

  CLI::App& compare =
      command("compare", "Compare results of different times or machines with the first one",
              compare_command);
  add_results(compare, request);
  add_format_options(compare, request, /*but=*/ReportFormat::csv);
  add(compare, "--threshold", request.threshold, "SHARE",
      "The status is 3 if a row is slower by more than that, as in 3%, beyond noise");

  CLI::App& explain = command("explain", "Print what a result that is there says", explain_command);
  add_results(explain, request);
  add_format_options(explain, request);

  add_report(command("report", "Write tables and charts of results as a page for a browser",
                     report_command),
             request);

  add_common_options(
      command("list", "List the plugins found (-v: and where they were looked for)", list_command),
      request);

  CLI::App& describe =
      command("describe",
              "Options of a plugin, or keys of a section (model, data, world, optimizer, train)",
              describe_command);
  add(describe, "name", request.name, kNameValue, "Plugin or section")->required();
  describe.add_flag("--python", request.python,
                    "How a program in Python uses it, as a program that does");
  add_common_options(describe, request);

  add_new_plugin(
      command("new", "Write the sources of a plugin of your own, to begin with", new_command),
      request);
  CLI::App& schema =
      command("schema", "Print the JSON Schema by which editors check and complete experiments",
              schema_command);
  add(schema, "--out", request.output, kFileValue, "The file to write (default: stdout)");
  add_common_options(schema, request);

  CLI::App& verify =
      command("verify", "Compare a data-parallel run with one process on the same global batch",
              verify_command, /*keeps_results=*/true);
  add_files(verify, request);
  add_experiment_options(verify, request);
  add(verify, "--bound", request.bound, "X",
      "Largest difference that passes, relative to a parameter's largest gradient and to the loss "
      "(default: 1e-5, or what rounding leaves open)")
      ->check(kNotNegative);
  add(verify, "--parameter-bound", request.parameter_bound, "X",
      "Largest absolute difference of a parameter after a step of SGD")
      ->check(kNotNegative);

  CLI::App& diff = command(
      "diff", "Name the step, phase and tensor in which experiments part from the first one",
      diff_command, /*keeps_results=*/true);
  add_files(diff, request);
  add_experiment_options(diff, request);
  add(diff, "--steps", request.steps, "N",
      "Compare so many, instead of train.warmup_steps + train.steps")
      ->check(between(1, 1000000));
  add(diff, "--ulp", request.ulp, "N",
      "What passes as rounding in forward and backward, in ulp of a tensor's largest "
      "element; by default 128, in formats of 16 bits 8, of 8 bits 3")
      ->check(kNotNegative);

  CLI::App& tune =
      command("tune", "Find the fastest setting of an experiment that trains, by real runs",
              tune_command, /*keeps_results=*/true);
  add_tuning(tune, request);

  CLI::App& checkpoint = command("checkpoint",
                                 "Look at checkpoints: what is in one, whether it is "
                                 "whole, what two differ in; or export weights",
                                 checkpoint_command);
  add_choice(checkpoint, "action", request.checkpoint_action, "What to do");
  checkpoint.get_option("action")->required();
  add(checkpoint, "paths", request.paths, kFolderValue,
      "Checkpoints, or folders of them, of which the latest is taken; for export a "
      "new folder too")
      ->required();
  add_columns(checkpoint, request);
  add_common_options(checkpoint, request);

  CLI::App& sample =
      command("sample", "Print text that the model of a checkpoint writes", sample_command);
  add_checkpoint(sample, request);
  add_sampling(sample, request);

  CLI::App& tokenize = command(
      "tokenize", "Write texts as a file of tokens, by a tokenizer's vocabulary", tokenize_command);
  add(tokenize, "--vocab", request.vocabulary, kFileValue,
      "Hugging Face's tokenizer.json, or tiktoken's ranks")
      ->required();
  add(tokenize, "--end", request.end_token, "TEXT",
      "A special token behind each input, as in '<|endoftext|>'");
  add_texts(tokenize, request);

  CLI::App& tokenizer = command("tokenizer", "Learn a vocabulary from texts", tokenizer_command);
  tokenizer
      .add_option_function<std::string>(
          "action", [](const std::string&) {}, "What to do")
      ->type_name("train")
      ->check(CLI::IsMember({"train"}).description(""))
      ->required();
  add(tokenizer, "--size", request.vocabulary_size, "N", "How many tokens it has in all")
      ->check(between(1, 1 << 24))
      ->required();
  add(tokenizer, "--special", request.special, "TEXT",
      "A text that is a token of its own and never joined (repeatable)")
      ->allow_extra_args(false);
  add_texts(tokenizer, request);

  CLI::App& doctor = command(
      "doctor", "Check this machine: processor, memory, backends, plugins, GPUs", doctor_command);
  doctor.add_flag("--json", request.json, "Print the findings as JSON");
  add_common_options(doctor, request);

  CLI::App& completion =
      command("completion", "Print a script that completes what is typed after `ddprun`",
              completion_command);
  add_choice(completion, "shell", request.shell, "For which shell");
  completion.get_option("shell")->required();
  add_common_options(completion, request);
}

}  // namespace ddprun
