// One function a group of options; commands are made of these.
#include "runner/command_line/command_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "runner/command/commands.h"
#include "runner/command_line/completion.h"

namespace ddprun {

namespace {

void add_common_options(CLI::App& command, Request& request) {
  // Repeatable options take one value each time: `--set a=1 file.yaml` must leave the file alone.
  command
      .add_option("--plugin-path", request.plugin_paths,
                  "Look for plugins in DIR first (repeatable)")
      ->type_name(kFolderValue)
      ->allow_extra_args(false);
  // Counted after parsing: versions of CLI11 differ in what a repeated flag on a number gives.
  command.add_flag("-v,--verbose")->description("Say more; -vv: everything");
}

void add_files(CLI::App& command, Request& request) {
  command
      .add_option("files", request.paths,
                  "Experiments: YAML files, or folders of them with their subfolders")
      ->type_name(kFileValue)
      ->required();
}

void add_experiment_options(CLI::App& command, Request& request) {
  command
      .add_option("--set", request.overrides,
                  "Replace a value of the YAML, as in train.steps=20 (repeatable)")
      ->type_name(kOverrideValue)
      ->allow_extra_args(false);
  command
      .add_option("--output", request.output,
                  "Write results under DIR instead of the YAML's output.dir")
      ->type_name(kFolderValue);
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
      ->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->check(CLI::IsMember(names).description(""));
}

void add_columns(CLI::App& command, Request& request) {
  command
      .add_option("--columns", request.columns,
                  "Width of the table; 0: no limit (default: the terminal's, 100 in a pipe)")
      ->type_name("N")
      ->check(CLI::Range(0, 100000).description(""));
}

void add_format_options(CLI::App& command, Request& request, std::optional<ReportFormat> but = {}) {
  add_choice(command, "--format", request.format,
             "What is printed: a table (the default), or all of its rows for other programs", but);
  add_columns(command, request);
}

void add_results(CLI::App& command, Request& request) {
  command
      .add_option("results", request.paths,
                  "Result folders, their result.json, or folders of results, of which the latest "
                  "is taken")
      ->type_name(kFolderValue)
      ->required();
  add_common_options(command, request);
}

void add_report(CLI::App& command, Request& request) {
  command.add_option("-o,--out", request.output, "The file to write (default: report.html)")
      ->type_name("FILE");
  add_results(command, request);
}

void add_run_options(CLI::App& command, Request& request) {
  add_experiment_options(command, request);
  command.add_flag("--resume", request.resume, "Take over rows that an earlier result already has");
  command
      .add_option("--max-restarts", request.max_restarts,
                  "Start a row's ranks again so often if they fail, from its last checkpoint")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000).description(""));
  command.add_flag("--quiet", request.quiet, "Only the table, and errors");
  add_format_options(command, request);
}

void add_tuning(CLI::App& command, Request& request) {
  command.add_option("file", request.paths, "An experiment that trains: a YAML file")
      ->type_name(kFileValue)
      ->expected(1)
      ->required();
  command
      .add_option("--over", request.over,
                  "Keys whose values are tried, as in strategy,train.accumulate=1|2 (default: the "
                  "strategy and its buckets)")
      ->type_name("KEY,...");
  command.add_option("--minutes", request.minutes, "After which no run begins")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 1e5).description(""));
  command.add_flag("--quiet", request.quiet, "Without progress");
  add_experiment_options(command, request);
  add_format_options(command, request);
}

void add_account_options(CLI::App& command, Request& request) {
  command.add_option("--ranks", request.account.ranks, "For so many ranks each, as in 1,2,8")
      ->type_name("N,...");
  command
      .add_option("--memory", request.account.memory,
                  "What a rank has, as in 80GB: says whether it fits")
      ->type_name("SIZE");
  command
      .add_option("--link", request.account.link,
                  "Bandwidth and latency between ranks, as in 200GB/s,5us: how long a step takes")
      ->type_name("RATE,TIME");
  command
      .add_option("--host-link", request.account.host_link, "The same between hosts (with --hosts)")
      ->type_name("RATE,TIME");
  command
      .add_option("--tflops", request.account.tflops,
                  "Of a rank's matrix products (with --link); else what this machine gives")
      ->type_name("X");
  command
      .add_option("--memory-rate", request.account.memory_rate,
                  "Of a rank's memory (with --tflops), as in 3TB/s; else all is in --tflops")
      ->type_name("RATE");
  command.add_option("--hosts", request.account.hosts, "Hosts x ranks of each, as in 8x8")
      ->type_name("NxN");
  add_experiment_options(command, request);
  add_format_options(command, request);
}

void add_checkpoint(CLI::App& command, Request& request) {
  command
      .add_option("path", request.paths,
                  "A checkpoint, or a folder of them, of which the latest is taken")
      ->type_name(kFolderValue)
      ->expected(1)
      ->required();
  add_common_options(command, request);
}

void add_texts(CLI::App& command, Request& request) {
  command
      .add_option("--pattern", request.pattern,
                  "How text is split: gpt2, cl100k, o200k or a regular expression; a "
                  "tokenizer.json has its own")
      ->type_name("NAME");
  command.add_option("--out", request.output, "The file to write")
      ->type_name(kFileValue)
      ->required();
  command.add_option("texts", request.paths, "Texts, one after another")
      ->type_name(kFileValue)
      ->required();
  add_common_options(command, request);
}

void add_sampling(CLI::App& command, Request& request) {
  Sampling& sampling = request.sampling;
  command.add_option("--prompt", request.prompt, "What the model goes on with")
      ->type_name("TEXT")
      ->required();
  command.add_option("--tokens", sampling.tokens, "How many tokens it writes")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000).description(""));
  command
      .add_option("--temperature", sampling.temperature,
                  "Logits are divided by it before a token is drawn; 0: the likeliest token")
      ->type_name("X")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6).description(""));
  command
      .add_option("--top-p", sampling.top_p,
                  "Draw among the fewest tokens that have this probability together")
      ->type_name("X")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0).description(""));
  command.add_option("--seed", sampling.seed, "Of the draws")
      ->type_name("N")
      ->capture_default_str();
}

void add_new_plugin(CLI::App& command, Request& request) {
  command.add_option("kind", request.kind, "What it is")
      ->type_name("strategy|precision|attention")
      ->required();
  command.add_option("name", request.name, "Its name in YAML, as in my_strategy")
      ->type_name("NEW_NAME")
      ->required();
  command
      .add_option("-o,--output", request.output,
                  "The folder to write, a new or an empty one (default: ./NEW_NAME)")
      ->type_name(kFolderValue);
  add_common_options(command, request);
}

}  // namespace

void declare_commands(CLI::App& app, Request& request) {
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
      *app.add_subcommand("quickstart",
                          "Run configs/quickstart.yaml, which comes with ddprun, into ./results"),
      request);

  CLI::App* run = app.add_subcommand("run", "Run experiments (the default: `ddprun FILE.yaml`)");
  add_files(*run, request);
  add_run_options(*run, request);

  CLI::App* validate = app.add_subcommand(
      "validate", "Check experiments without running them (-v: show them resolved)");
  add_files(*validate, request);
  add_experiment_options(*validate, request);

  CLI::App* account = app.add_subcommand(
      "account", "Say what memory and collectives experiments would take, without running them");
  add_files(*account, request);
  add_account_options(*account, request);

  CLI::App* data = app.add_subcommand(
      "data", "Say which tokens of which file each rank reads in a step, without running it");
  add_files(*data, request);
  data->add_option("--step", request.step, "Which step, counted from 0 (default: 0)")
      ->type_name("N");
  add_experiment_options(*data, request);

  CLI::App* compare = app.add_subcommand(
      "compare", "Compare results of different times or machines with the first one");
  add_results(*compare, request);
  add_format_options(*compare, request, /*but=*/ReportFormat::csv);
  compare
      ->add_option("--threshold", request.threshold,
                   "The status is 3 if a row is slower by more than that, as in 3%, beyond noise")
      ->type_name("SHARE");

  CLI::App* explain = app.add_subcommand("explain", "Print what a result that is there says");
  add_results(*explain, request);
  add_format_options(*explain, request);

  add_report(
      *app.add_subcommand("report", "Write tables and charts of results as a page for a browser"),
      request);

  add_common_options(
      *app.add_subcommand("list", "List the plugins found (-v: and where they were looked for)"),
      request);

  CLI::App* describe = app.add_subcommand(
      "describe",
      "Options of a plugin, or keys of a section (model, data, world, optimizer, train)");
  describe->add_option("name", request.name, "Plugin or section")
      ->type_name(kNameValue)
      ->required();
  describe->add_flag("--python", request.python,
                     "How a program in Python uses it, as a program that does");
  add_common_options(*describe, request);

  add_new_plugin(
      *app.add_subcommand("new", "Write the sources of a plugin of your own, to begin with"),
      request);
  CLI::App* schema = app.add_subcommand(
      "schema", "Print the JSON Schema by which editors check and complete experiments");
  schema->add_option("--out", request.output, "The file to write (default: stdout)")
      ->type_name(kFileValue);
  add_common_options(*schema, request);

  CLI::App* verify = app.add_subcommand(
      "verify", "Compare a data-parallel run with one process on the same global batch");
  add_files(*verify, request);
  add_experiment_options(*verify, request);
  verify
      ->add_option(
          "--bound", request.bound,
          "Largest difference that passes, relative to a parameter's largest gradient and to "
          "the loss")
      ->capture_default_str();
  verify->add_option("--parameter-bound", request.parameter_bound,
                     "Largest absolute difference of a parameter after a step of SGD");

  CLI::App* diff = app.add_subcommand(
      "diff", "Name the step, phase and tensor in which experiments part from the first one");
  add_files(*diff, request);
  add_experiment_options(*diff, request);
  diff->add_option("--steps", request.steps,
                   "Compare so many, instead of train.warmup_steps + train.steps")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000).description(""));
  diff->add_option("--ulp", request.ulp,
                   "What passes as rounding in forward and backward, in ulp of a tensor's largest "
                   "element; by default 128, in formats of 16 bits 8, of 8 bits 3")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber.description(""));

  CLI::App* tune = app.add_subcommand(
      "tune", "Find the fastest setting of an experiment that trains, by real runs");
  add_tuning(*tune, request);

  CLI::App* checkpoint = app.add_subcommand("checkpoint",
                                            "Look at checkpoints: what is in one, whether it is "
                                            "whole, what two differ in; or export weights");
  add_choice(*checkpoint, "action", request.checkpoint_action, "What to do");
  checkpoint->get_option("action")->required();
  checkpoint
      ->add_option("paths", request.paths,
                   "Checkpoints, or folders of them, of which the latest is taken; for export a "
                   "new folder too")
      ->type_name(kFolderValue)
      ->required();
  add_columns(*checkpoint, request);
  add_common_options(*checkpoint, request);

  CLI::App* sample =
      app.add_subcommand("sample", "Print text that the model of a checkpoint writes");
  add_checkpoint(*sample, request);
  add_sampling(*sample, request);

  CLI::App* tokenize = app.add_subcommand(
      "tokenize", "Write texts as a file of tokens, by a tokenizer's vocabulary");
  tokenize
      ->add_option("--vocab", request.vocabulary,
                   "Hugging Face's tokenizer.json, or tiktoken's ranks")
      ->type_name(kFileValue)
      ->required();
  tokenize
      ->add_option("--end", request.end_token,
                   "A special token behind each input, as in '<|endoftext|>'")
      ->type_name("TEXT");
  add_texts(*tokenize, request);

  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Learn a vocabulary from texts");
  tokenizer
      ->add_option_function<std::string>(
          "action", [](const std::string&) {}, "What to do")
      ->type_name("train")
      ->check(CLI::IsMember({"train"}).description(""))
      ->required();
  tokenizer->add_option("--size", request.vocabulary_size, "How many tokens it has in all")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24).description(""))
      ->required();
  tokenizer
      ->add_option("--special", request.special,
                   "A text that is a token of its own and never joined (repeatable)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  add_texts(*tokenizer, request);

  CLI::App* doctor = app.add_subcommand(
      "doctor", "Check this machine: processor, memory, backends, plugins, GPUs");
  doctor->add_flag("--json", request.json, "Print the findings as JSON");
  add_common_options(*doctor, request);

  CLI::App* completion = app.add_subcommand(
      "completion", "Print a script that completes what is typed after `ddprun`");
  add_choice(*completion, "shell", request.shell, "For which shell");
  completion->get_option("shell")->required();
  add_common_options(*completion, request);
}

}  // namespace ddprun
