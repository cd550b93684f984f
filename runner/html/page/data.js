// What the page knows of its results, and numbers from samples.

/** Each result as `page_of_result()` made it, in runner/html/html_report.cpp. */
const results = JSON.parse(document.getElementById("data").textContent);

/** Linear between order statistics, as in result.json. */
function quantile(values, share) {
  const sorted = Float64Array.from(values).sort();
  const at = (sorted.length - 1) * share, below = Math.floor(at);
  return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

const isNumber = value => typeof value === "number" && Number.isFinite(value);

/** Three digits or more, as in the table. */
function shortNumber(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return Number(value.toPrecision(3)).toExponential();
  if (size !== 0 && size < 1) return String(Number(value.toPrecision(3)));
  return value.toLocaleString("en", {maximumFractionDigits: size >= 1000 ? 0 : size >= 100 ? 1 : 2});
}

const byteUnit = value => [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"]].find(([size]) => Math.abs(value) >= size) ?? [1, " B"];

/** 1000 -> "1 kB": axes of bytes. */
function shortBytes(value) {
  const [size, unit] = byteUnit(value);
  return shortNumber(value / size) + unit;
}

const capital = text => text[0].toUpperCase() + text.slice(1);
/** Names differ at their ends. */
const cut = (text, length) => text.length > length ? text.slice(0, length / 2) + "…" + text.slice(1 - length / 2) : text;

/** "world.backend", "gloo" -> "gloo"; "collectives.bytes", "1000" -> "1 kB": what needs its key keeps the last word of it. */
function briefly(path, value) {
  const key = path.split(".").at(-1);
  if (!/^([\d.e+-]+|true|false)\)?$/.test(value)) return value;
  return key === "bytes" ? shortBytes(Number(value)) : `${key}=${value}`;
}

/** Labels for `length` characters: if one is longer, all without the keys of numbers, as long as they stay apart; then cut. */
function fitting(labels, length) {
  if (labels.some(label => label.length > length)) {
    const bare = labels.map(label => label.replace(/[a-z_]+=(?=[\d.])/g, ""));
    if (new Set(bare).size === new Set(labels).size) labels = bare;
  }
  return labels.map(label => cut(label, length));
}

/** {a: {b: 1}} -> {"a.b": 1} */
function flat(config, prefix = "", out = {}) {
  for (const [key, value] of Object.entries(config ?? {})) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) flat(value, prefix + key + ".", out);
    else out[prefix + key] = value;
  }
  return out;
}

const same = (a, b) => a === b || (typeof a === "object" && typeof b === "object" && JSON.stringify(a) === JSON.stringify(b));

/** Keys of the experiments in which the rows differ. */
function differingKeys(rows) {
  const keys = new Set(rows.flatMap(row => Object.keys(row.flat)));
  return [...keys].filter(key => rows.some(row => !same(row.flat[key], rows[0].flat[key])));
}

/** A line of the table with its runs. */
class RowView {
  constructor(data, index) {
    const {table} = data.result;
    const line = table[index];
    const end = index + 1 < table.length ? table[index + 1].first_row - 1 : data.result.rows.length;
    this.index = index;
    this.name = line.name;
    // For charts: "world.backend=gloo, collectives.bytes=1000" as "gloo, 1 kB"; "2" under the title world.size as "world.size=2".
    this.brief = line.name.replace(/(^|, )([a-z_.]+)=([^,]*)/g, (_, before, key, value) => before + briefly(key, value));
    if (/^[\d.e+-]+$/.test(line.name)) this.brief = `${data.table.columns[0].title}=${line.name}`;
    this.figures = line.figures;
    this.std = line.std ?? {};
    this.runs = data.result.rows.slice(line.first_row - 1, end);
    this.measured = this.runs.filter(run => run.ranks.length > 0);
    this.memoryPicture = this.runs.map((_, i) => data.memory[line.first_row - 1 + i]).find(Boolean);
    this.operators = data.operators.slice(line.first_row - 1, end).find(times => times !== null);
    this.first = this.runs.find(run => run.status !== "ok") ?? this.runs[0];
    this.kind = this.first.kind;
    this.line = data.table.lines[index];
    this.words = [this.name, ...this.line.cells.map(cell => cell.text), this.line.note?.text ?? ""].join(" ").toLowerCase();
  }
  get flat() { return this.flat_ ??= flat(this.first.config); }
  get ranks() { return this.first.world_size; }
  /** Of the first run that was measured. */
  get rank0() { return this.measured[0]?.ranks[0]; }
}

/** The samples of a run step by step: [{step, warmup, value}], over the ranks the "max" or the "mean". */
function stepsOf(run, key, how) {
  const ranks = run.ranks.map(rank => rank.samples).filter(samples => samples[key]);
  if (ranks.length === 0) return [];
  const out = [];
  for (let i = 0; i < ranks[0].step.length; ++i) {
    const values = ranks.map(samples => samples[key][i]).filter(isNumber);
    if (values.length === 0) continue;
    const value = how === "max" ? Math.max(...values) : values.reduce((sum, each) => sum + each, 0) / values.length;
    out.push({step: ranks[0].step[i], warmup: Boolean(ranks[0].warmup[i]), value});
  }
  return out;
}

const overRanks = kind => kind === "attention" ? "mean" : "max"; // of a step's time

/** A result, ready to be shown. */
class ResultView {
  /** `level`: of its heading on the page. */
  constructor(data, number, level) {
    this.data = data;
    this.level = level + 1; // of its parts' headings
    this.id = "result-" + (number + 1);
    this.result = data.result;
    this.name = data.result.name || "result";
    this.rows = data.result.table.map((_, index) => new RowView(data, index));
    this.shown = this.rows; // sorted and filtered
    this.kinds = Object.keys(data.kinds);
  }
  /** The unit of a quantity, by its key. */
  quantity(kind, key) { return this.data.kinds[kind]?.quantities.find(each => each.key === key); }
  /** The first quantity of a kind is the measured time of a step. */
  timeKey(kind) { return this.data.kinds[kind].quantities[0].key; }
  /** Shown rows of a kind that have the figure. */
  with(kind, key) { return this.shown.filter(row => row.kind === kind && isNumber(row.figures[key])); }
}

/** What lies around a row's time: [low, high, words]. Between runs where there are some, else between steps. */
function spreadOf(view, row) {
  const key = view.timeKey(row.kind), figure = row.figures[key];
  if (row.measured.length > 1 && isNumber(row.std[key])) return [figure - row.std[key], figure + row.std[key], "± standard deviation between runs"];
  const values = stepsOf(row.measured[0], key, overRanks(row.kind)).filter(each => !each.warmup).map(each => each.value);
  return values.length > 1 ? [quantile(values, 0.25), quantile(values, 0.75), "quartiles of its steps"] : null;
}

// ---------------------------------------------------------------- files

const csvField = value => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};
const csvOf = lines => lines.map(line => line.map(csvField).join(",") + "\n").join("");

/** The table's figures, in full, of the rows that are shown. */
function tableCsv(view) {
  const keys = [], titles = new Map();
  for (const kind of view.kinds) {
    for (const {key} of view.data.kinds[kind].quantities) {
      if (!titles.has(key) && view.shown.some(row => key in row.figures)) titles.set(key, keys.push(key));
    }
  }
  const head = [view.data.table.columns[0].title, "kind", "status", "proof", "runs", ...keys, ...keys.map(key => key + "_std")];
  const lines = view.shown.map(row => [row.name, row.kind, row.first.status, row.first.proof?.status, row.runs.length,
    ...keys.map(key => row.figures[key]), ...keys.map(key => row.std[key])]);
  const used = head.map((_, i) => i < 5 + keys.length || lines.some(line => line[i] !== undefined));
  return csvOf([head, ...lines].map(line => line.filter((_, i) => used[i])));
}

/** One line for each row that is shown, run, rank and step. */
function samplesCsv(view) {
  const keys = new Set();
  for (const row of view.shown) for (const run of row.measured) for (const key of Object.keys(run.ranks[0].samples)) keys.add(key);
  const columns = [...keys];
  const lines = [["row", "run", "rank", ...columns]];
  for (const row of view.shown) {
    for (const run of row.measured) {
      for (const {rank, samples} of run.ranks) {
        samples.step.forEach((_, i) => lines.push([row.name, run.repetition, rank, ...columns.map(key => samples[key]?.[i])]));
      }
    }
  }
  return csvOf(lines);
}

// ---------------------------------------------------------------- YAML

function yamlScalar(value) {
  if (Array.isArray(value)) return "[" + value.map(yamlScalar).join(", ") + "]";
  if (value !== null && typeof value === "object") {
    return "{" + Object.entries(value).map(([key, each]) => key + ": " + yamlScalar(each)).join(", ") + "}";
  }
  if (typeof value !== "string") return String(value);
  const plain = /^[A-Za-z_./][\w ./+-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|\.inf|\.nan)$/i.test(value);
  return plain ? value : JSON.stringify(value);
}

/** {"a.b": 1} as YAML. */
function yamlOf(keys, indent = "") {
  const groups = new Map();
  for (const [key, value] of Object.entries(keys)) {
    const [head, ...rest] = key.split(".");
    if (!groups.has(head)) groups.set(head, {});
    if (rest.length) groups.get(head)[rest.join(".")] = value;
    else groups.set(head, {value});
  }
  let out = "";
  for (const [head, inner] of groups) {
    const leaf = Object.keys(inner).length === 1 && "value" in inner && head in keys;
    out += indent + head + ":" + (leaf ? " " + yamlScalar(inner.value) + "\n" : "\n" + yamlOf(inner, indent + "  "));
  }
  return out;
}
