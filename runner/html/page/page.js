// Puts the sections of each result together, and keeps them at what is sorted and filtered.

/** Rows that were not measured, those with one reason together; of others a sentence has it. */
function reasonsOf(view) {
  const names = new Map();
  for (const {name, measured, first: {status, reason}} of view.rows) {
    if (!reason || measured.length > 0) continue;
    const words = `${status}: ${reason}`;
    names.set(words, [...names.get(words) ?? [], name]);
  }
  return [...names].map(([words, of]) => `${of.slice(0, 3).join("; ")}${of.length > 3 ? ` and ${of.length - 3} more` : ""}: ${words}`);
}

/** First what makes figures doubtful, then what the rows say together, then what else to know of them. */
function verdict(view) {
  const {lines} = view.data, count = new Map();
  for (const row of view.rows) count.set(row.first.status, (count.get(row.first.status) ?? 0) + 1);
  const outcome = [...count].map(([status, rows]) => `${rows} ${status}`).join(", ");
  const list = (texts, sort) => texts.length ? element("ul", {class: sort}, ...texts.map(text => element("li", {}, text))) : null;
  const texts = wanted => lines.filter(wanted).map(line => line.text);
  return [
    element("p", {class: "outcome"}, `${rowWord(view.rows)}: ${outcome}.`),
    list([...texts(line => line.bad), ...reasonsOf(view)], "bad"),
    list(texts(line => line.finding), "found"),
    list(texts(line => !line.bad && !line.finding), "notes"),
  ];
}

/** A line for each check: in how many rows it passed, and what it said first. */
function proofTable(view) {
  const checks = new Map(), kOutcomes = ["passed", "declared", "control", "failed", "unchecked"];
  for (const row of view.rows) {
    for (const check of row.measured.flatMap(run => run.proof.checks)) {
      const known = checks.get(row.kind + check.name) ?? {name: check.name, means: view.data.kinds[row.kind].checks[check.name] ?? "", of: {}, detail: check};
      known.of[check.status] = (known.of[check.status] ?? 0) + 1;
      if (kOutcomes.indexOf(check.status) > kOutcomes.indexOf(known.detail.status)) known.detail = check;
      checks.set(row.kind + check.name, known);
    }
  }
  if (checks.size === 0) return null;
  const moods = {passed: "good", declared: "good", control: "odd", failed: "bad"};
  return plainTable("Each check, and in how many runs it passed", [{title: "check"}, {title: "passed means"}, {title: "outcome"}, {title: "what was compared, of one row"}],
    [...checks.values()].map(({name, means, of, detail}) => [name.replaceAll("_", " "), means || "–",
      {text: kOutcomes.filter(each => of[each]).map(each => `${of[each]} ${each}`).join(", "), mood: moods[detail.status]}, detail.detail]));
}

/** The keys that all rows share, as YAML, and those in which they differ, as a table. */
function experiment(view) {
  const rows = view.rows.filter(row => row.first.config);
  if (rows.length === 0) return null;
  const differing = differingKeys(rows), common = {...rows[0].flat};
  for (const key of differing) delete common[key];
  const table = () => plainTable("In what the rows differ", [{title: "row"}, ...differing.map(title => ({title}))],
    rows.map(row => [row.name, ...differing.map(key => row.flat[key] === undefined ? "–" : yamlScalar(row.flat[key]))]));
  return [
    differing.length === 0 ? null : rows.length > 50 ? details("In what the rows differ", table) : table(),
    element("p", {}, differing.length ? "All rows have in common:" : "All keys, defaults too:"),
    scrolling("The experiment as YAML", element("pre", {}, yamlOf(common))),
  ].filter(Boolean);
}

/** A heading within a part. */
const below = (view, text) => element("h" + (view.level + 1), {class: "below"}, text);

const definitions = pairs => element("dl", {}, ...pairs.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, String(text))]));

/** A picture that the program drew: wide, so it scrolls by itself. */
const drawnFigure = (title, note, picture) => element("figure", {class: "drawn"}, element("p", {class: "title"}, title),
  scrolling(title, picture), note ? element("figcaption", {}, note) : null);

/** Its texts are escaped where they were written (core/ddprun/profile/svg.cpp). */
function timelineFigure({data}) {
  if (!data.timeline) return null;
  const holder = element("template");
  holder.innerHTML = data.timeline;
  return drawnFigure("The last step, rank by rank", "Red is communication that a rank waits for, pink what it waits longer for a slower one; ticks are gradients that became ready. "
    + "A pointer over a bar shows its label, bytes and time.", holder.content);
}

/** Files of the result's folder are pictures and nothing else, whatever is in them. */
function memoryFigures(view) {
  const kOpen = 2, rows = view.rows.filter(row => row.memoryPicture);
  const make = row => {
    const {phase, tensors} = row.rank0.memory_peak, parts = tensors.filter(([, bytes]) => bytes > 0).map(([name, bytes]) => `${name} ${shortBytes(bytes)}`);
    return drawnFigure("Memory over a step: " + row.name, null, element("img", {
      src: "data:image/svg+xml," + encodeURIComponent(row.memoryPicture), alt: `At the peak, in ${phase}: ${parts.join(", ")}.`}));
  };
  const recorded = view.rows.filter(row => row.rank0?.memory_peak).length;
  return [
    ...rows.map((row, i) => i < kOpen ? make(row) : details("Memory over a step: " + row.name, () => make(row))),
    rows.length > 0 && rows.length < recorded ? element("p", {class: "when"}, `${rows.length} of ${recorded} rows; profile/ in the folder of the result has memory.svg of all.`) : null,
  ];
}

function columnMeanings(view) {
  return view.kinds.map(kind => element("div", {}, view.kinds.length > 1 ? below(view, kind) : null, definitions(view.data.kinds[kind].quantities
    .filter(({key}) => view.rows.some(row => key in row.figures))
    .map(each => [each.title ? `${each.title} (${each.key})` : each.key, wordsOf(each)]))));
}

function writtenTexts(view) {
  const rows = view.rows.filter(row => row.rank0?.texts?.length);
  if (rows.length === 0) return null;
  return rows.map(row => element("div", {}, below(view, row.name),
    ...row.rank0.texts.slice(-1).map(({step, text}) => element("blockquote", {}, element("p", {class: "written"}, text), element("footer", {}, `after ${step} ${step === 1 ? "step" : "steps"}`)))));
}

class ResultSection {
  constructor(data, number) {
    this.view = new ResultView(data, number, results.length === 1 ? 1 : 2);
    this.links = [];
  }

  /** A part with a heading and a link to it; null where `content` has nothing. */
  part(title, content) {
    const children = [content].flat().filter(Boolean);
    if (children.length === 0) return null;
    const id = this.view.id + "-" + title.toLowerCase().replace(/[^a-z]+/g, "-");
    this.links.push(element("a", {href: "#" + id}, title));
    const folded = children.every(child => child.tagName === "DETAILS"); // paper cannot open it
    return element("section", {id, class: folded ? "screen" : null, "aria-labelledby": id + "-title"},
      element("h" + this.view.level, {class: "part", id: id + "-title"}, title), ...children);
  }

  charts() {
    const {view} = this;
    return view.kinds.map(kind => {
      const figures = picturesOf(view, kind).map(picture => picture.figure);
      return figures.length ? element("div", {}, view.kinds.length > 1 ? below(view, kind) : null, element("div", {class: "charts"}, ...figures)) : null;
    });
  }

  further(wanted) {
    return this.view.data.further.filter(({what}) => what.startsWith(wanted)).map(({what, table, words}) => details(capital(what), () => [
      textTable(capital(what), table), words.length ? element("ul", {}, ...words.map(text => element("li", {}, text))) : ""]));
  }

  element() {
    const {view} = this, {result, data: {command}} = view, table = this.table = new RowTable(view);
    const tableElement = table.element();
    table.update();
    const proof = proofTable(view), shared = experiment(view), texts = writtenTexts(view);
    const parts = [
      this.part("Verdict", verdict(view)),
      this.part("Rows", tableElement),
      this.part("Charts", this.charts()),
      this.part("Timeline", timelineFigure(view)),
      this.part("Memory", [...memoryFigures(view), ...this.further("memory")]),
      this.part("Operators", this.further("operators")),
      this.part("Proof", proof),
      this.part("What the models wrote", texts && details(`Of ${rowWord(texts)}`, () => texts)),
      this.part("Columns", details("What each column means", () => columnMeanings(view))),
      this.part("Environment", definitions(Object.entries(result.environment))),
      this.part("Experiment", shared),
    ].filter(Boolean);
    const when = [result.time, result.environment.hostname, "ddprun " + result.ddprun_version, view.data.place].filter(Boolean).join(" · ");
    return element("article", {id: view.id, "aria-labelledby": view.id + "-title"},
      element("h" + (view.level - 1), {id: view.id + "-title"}, view.name),
      element("p", {class: "when"}, when),
      command ? scrolling("The command line", element("pre", {class: "command"}, command)) : null,
      element("nav", {"aria-label": "Parts of " + view.name}, ...this.links),
      ...parts);
  }
}

/** More results than these begin folded: 500 of them would take ten seconds to build. */
const kOpenResults = 12;

/** The whole of a result; folded, it is built when it is opened, or when a link leads into it. */
function articleOf(section, folded) {
  const {view} = section;
  if (!folded) return section.element();
  const {name, result, rows} = view;
  const out = details(`${name}, ${result.time}: ${rowWord(rows)}`, () => section.element());
  out.classList.add("result");
  out.dataset.of = view.id;
  return out;
}

/** "#result-7", of a folded result too. */
function unfold() {
  const id = location.hash.match(/^#(result-\d+)/)?.[1], folded = id && document.querySelector(`details[data-of="${id}"]`);
  if (!folded || folded.open) return;
  folded.open = true;
  folded.fill();
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

let sections = [], pending = 0;

const built = () => sections.filter(section => section.table);

/** What is sorted or filtered has changed: tables at once, charts with the next frame. */
function changed() {
  for (const section of built()) section.table.update();
  writeState();
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => {
    announce(built().map(section => section.table.count.textContent).join("; "));
    for (const picture of pictures) picture.touch();
  });
}

function build() {
  readState();
  themeCharts();
  sections = results.map((data, number) => new ResultSection(data, number));
  const alone = sections.length === 1, folds = sections.length > kOpenResults;
  const articles = sections.map(section => articleOf(section, folds));
  const names = sections.map(section => section.view.name);
  document.title = names.join(", ") + " – ddprun";
  if (!alone) {
    document.getElementById("top").append(element("h1", {}, `${sections.length} results of ddprun`), folds ? "" : element("nav", {"aria-label": "Results"},
      ...sections.map(({view}) => element("a", {href: "#" + view.id}, `${view.name}, ${view.result.time}`))));
  }
  document.getElementById("content").append(...articles);
  unfold();
  for (const query of ["(prefers-color-scheme: dark)", "(max-width: 600px)"]) matchMedia(query).addEventListener("change", redrawAll);
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return unfold(); // a link to a part
    readState();
    changed();
  });
  document.documentElement.dataset.ready = Math.round(document.body.offsetHeight && performance.now()); // ms, laid out
}

build();
