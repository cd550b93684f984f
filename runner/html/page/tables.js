// Elements, tables, and the table of rows, which is sorted and filtered.

/** element("p", {class: "x"}, "text", child, ...). Texts are texts, never HTML. */
function element(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) out.setAttribute(key, value === true ? "" : value);
  }
  out.append(...children.filter(child => child !== null && child !== undefined));
  return out;
}

/** Narrow columns break "model.context_length=128" behind its signs, and not within a word. */
const breakable = text => text.split(/(?<=[.=])/).flatMap(part => [part, element("wbr")]);

const announce = text => { document.getElementById("announced").textContent = text; };

/** A file of what `make` returns, without a network. */
function downloadButton(label, file, make) {
  return element("button", {type: "button", class: "download", onclick: () => {
    const link = element("a", {href: "data:text/csv;charset=utf-8," + encodeURIComponent(make()), download: file});
    document.body.append(link);
    link.click();
    link.remove();
  }}, label);
}

/** `make` is called when it is opened. */
function details(summary, make) {
  const out = element("details", {}, element("summary", {}, summary));
  const fill = () => { if (out.children.length === 1) out.append(...[make()].flat()); };
  out.addEventListener("toggle", fill);
  out.fill = fill;
  return out;
}

/** Wide content scrolls by itself, with the keyboard too. */
const scrolling = (label, child) => element("div", {class: "scrolling", tabindex: 0, role: "region", "aria-label": label}, child);

/** columns: [{title, number}], lines: lists of texts or {text, mood}. The first cell of a line is its name. */
function plainTable(caption, columns, lines) {
  const cell = (value, i) => {
    const {text, mood} = typeof value === "object" && value !== null ? value : {text: value};
    const attributes = {class: [columns[i]?.number ? "number" : "", mood ?? ""].join(" ").trim() || null};
    return i === 0 ? element("th", {scope: "row", ...attributes}, text ?? "–") : element("td", attributes, text ?? "–");
  };
  return scrolling(caption, element("table", {},
    element("caption", {}, element("span", {}, caption)),
    element("thead", {}, element("tr", {}, ...columns.map(({title, number}) =>
      element("th", {scope: "col", class: number ? "number" : null}, title)))),
    element("tbody", {}, ...lines.map(line => element("tr", {}, ...line.map(cell))))));
}

/** Of tables as the program made them. */
const textTable = (caption, table) => plainTable(caption, table.columns, table.lines.map(line => line.cells));

// ---------------------------------------------------------------- what is sorted and filtered: #sort=step_ms&order=desc&filter=flat

const state = {sort: "", order: "asc", filter: ""};

function readState() {
  const fragment = location.hash.slice(1);
  if (!fragment.includes("=")) return;
  const given = new URLSearchParams(fragment);
  Object.assign(state, {sort: given.get("sort") ?? "", order: given.get("order") === "desc" ? "desc" : "asc", filter: given.get("filter") ?? ""});
}

function writeState() {
  const given = new URLSearchParams();
  if (state.sort) given.set("sort", state.sort);
  if (state.sort && state.order === "desc") given.set("order", "desc");
  if (state.filter) given.set("filter", state.filter);
  const text = given.toString();
  try {
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  } catch { /* some places have no history */ }
}

/** Of a quantity; keys stand between backticks there. */
const wordsOf = ({meaning, shown, remark}) => [meaning + (shown ? `, in ${shown}` : ""), remark].filter(Boolean).join(". ").replaceAll("`", "");

/** The table of all rows, above everything that follows from them. */
class RowTable {
  constructor(view) {
    this.view = view;
    this.columns = view.data.table.columns.map((column, i) => {
      const found = view.kinds.map(kind => view.data.kinds[kind].quantities.find(each => each.title === column.title)).find(Boolean);
      return {...column, index: i, key: found?.key ?? column.title, about: found};
    });
    this.heads = this.columns.map(column => this.head(column));
    this.body = element("tbody");
    this.lines = view.rows.map(row => this.lineOf(row));
    this.count = element("span", {class: "count"});
  }

  /** The sign lies beside the title for the eye; aria-sort says it to who does not see it. */
  head(column) {
    const {about, number, title, key, index} = column;
    const words = about ? wordsOf(about) : null;
    const button = element("button", {type: "button", title: words, onclick: () => this.sortBy(key)}, title);
    return element("th", {scope: "col", class: [number ? "number" : "", index === 0 ? "name" : ""].join(" ").trim() || null, "data-key": key}, button);
  }

  lineOf(row) {
    const {cells, note} = row.line;
    const line = element("tr", {"data-row": row.index + 1});
    cells.forEach((cell, i) => {
      const {number, key} = this.columns[i];
      const mood = cell.mood ?? "";
      if (i === 0) {
        line.append(element("th", {scope: "row", class: "name"}, element("span", {}, ...breakable(cell.text))));
      } else {
        const value = row.figures[key];
        line.append(element("td", {class: [number ? "number" : "", mood].join(" ").trim() || null, "data-value": isNumber(value) ? value : null}, cell.text));
      }
    });
    if (note) line.append(element("td", {colspan: this.columns.length - cells.length, class: "note " + (note.mood ?? "")}, note.text));
    return line;
  }

  element() {
    const {view} = this;
    this.input = element("input", {type: "search", placeholder: "words, as in: flat proved", autocomplete: "off", spellcheck: "false",
      oninput: event => { state.filter = event.target.value; changed(); }});
    return element("div", {},
      element("div", {class: "tools"},
        element("label", {}, "Only rows with ", this.input), this.count,
        downloadButton("Table as CSV", view.name + ".csv", () => tableCsv(view)),
        downloadButton("Samples as CSV", view.name + "_samples.csv", () => samplesCsv(view))),
      scrolling("Rows of " + view.name, element("table", {class: "rows"},
        element("caption", {}, element("span", {}, view.kinds.map(kind => view.data.kinds[kind].note).join(". ") + ". A column's title sorts by it.")),
        element("thead", {}, element("tr", {}, ...this.heads)), this.body)));
  }

  sortBy(key) {
    state.order = state.sort === key && state.order === "asc" ? "desc" : "asc";
    state.sort = key;
    changed();
  }

  /** By the figure where there is one, else by the text; rows without a value come last either way. */
  valueOf(row, column) {
    const figure = row.figures[column.key], text = row.line.cells[column.index]?.text ?? "";
    if (isNumber(figure)) return figure;
    if (text === "" || text === "–") return null;
    return column.number ? Number.parseFloat(text.replaceAll(",", "")) : text;
  }

  update() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = this.view.rows.filter(row => words.every(word => row.words.includes(word)));
    const column = this.columns.find(each => each.key === state.sort || each.title === state.sort);
    if (column) {
      const sign = state.order === "desc" ? -1 : 1;
      const order = new Intl.Collator("en", {numeric: true});
      const compared = shown.map(row => [row, this.valueOf(row, column)]);
      compared.sort(([rowA, a], [rowB, b]) => {
        if (a === null || b === null) return (a === null) - (b === null) || rowA.index - rowB.index;
        return sign * (isNumber(a) && isNumber(b) ? a - b : order.compare(a, b)) || rowA.index - rowB.index;
      });
      shown.splice(0, shown.length, ...compared.map(([row]) => row));
    }
    this.view.shown = shown;
    this.heads.forEach((head, i) => {
      if (this.columns[i] === column) head.setAttribute("aria-sort", state.order === "desc" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...shown.map(row => this.lines[row.index]));
    this.count.textContent = shown.length === this.view.rows.length ? rowWord(shown) : `${shown.length} of ${this.view.rows.length} rows`;
    if (this.input.value !== state.filter) this.input.value = state.filter;
  }
}
