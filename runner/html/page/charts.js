// Charts as figures: drawn when they come into sight or are printed, in the page's colours, with their numbers as a table beside them.

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const lineColour = i => colour("line-" + (i % 8 + 1));
const partColour = i => colour("line-" + (i % 13 + 1));
const kDashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

/** Lines from low to high over bars that lie: dataset.spreads has [low, mark, high] or null for each bar. */
const spreadMarks = {
  id: "spreadMarks",
  afterDatasetsDraw(chart) {
    chart.data.datasets.forEach((dataset, d) => {
      if (!dataset.spreads || !chart.isDatasetVisible(d)) return;
      const {ctx, scales: {x}} = chart;
      ctx.save();
      ctx.strokeStyle = colour("text");
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      chart.getDatasetMeta(d).data.forEach((bar, i) => {
        if (!dataset.spreads[i]) return;
        const [low, mark, high] = dataset.spreads[i].map(value => x.getPixelForValue(value));
        ctx.moveTo(low, bar.y);
        ctx.lineTo(high, bar.y);
        for (const [at, size] of [[low, 3], [high, 3], [mark, 6]]) {
          ctx.moveTo(at, bar.y - size);
          ctx.lineTo(at, bar.y + size);
        }
      });
      ctx.stroke();
      ctx.restore();
    });
  },
};

/** Shades where x is below `options.until`: the warm-up. */
const warmupBand = {
  id: "warmupBand",
  beforeDatasetsDraw(chart, _, {until}) {
    if (until === undefined) return;
    const {ctx, chartArea: {left, right, top, bottom}, scales: {x}} = chart;
    const end = Math.min(x.getPixelForValue(until), right);
    ctx.save();
    ctx.fillStyle = colour("band");
    ctx.fillRect(left, top, end - left, bottom - top);
    ctx.fillStyle = colour("muted");
    ctx.font = "11px " + Chart.defaults.font.family;
    if (end - left > 50) ctx.fillText("warm-up", left + 4, top + 12);
    ctx.restore();
  },
};

/** Names beside points, on the side where there is room; those that have none are left out. */
const pointNames = {
  id: "pointNames",
  afterDatasetsDraw(chart) {
    const {ctx, chartArea: {left, right}} = chart;
    const points = chart.data.datasets.flatMap((dataset, d) => (dataset.names ?? []).map((name, i) => ({name, at: chart.getDatasetMeta(d).data[i]})));
    const taken = points.map(({at}) => ({x: at.x - 4, y: at.y + 4, width: 8}));
    const free = ({x, y, width}) => x > left && x + width <= right + 8 && !taken.some(other => x < other.x + other.width && other.x < x + width && Math.abs(other.y - y) < 11);
    ctx.save();
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.fillStyle = colour("text");
    for (const {name, at} of points) {
      const {width} = ctx.measureText(name);
      const place = [[7, -5], [-7 - width, -5], [7, 13], [-7 - width, 13]].map(([x, y]) => ({x: at.x + x, y: at.y + y, width})).find(free);
      if (!place) continue;
      taken.push(place);
      ctx.fillText(name, place.x, place.y);
    }
    ctx.restore();
  },
};

/** `write`, or more digits where it would write neighbours alike. */
function apart(ticks, write) {
  const values = ticks.map(tick => tick.value);
  if (![shortNumber, shortBytes].includes(write)) return write;
  if (new Set(values.map(write)).size === values.length) return write;
  const [size, unit] = write === shortBytes ? byteUnit(Math.max(...values)) : [1, ""];
  const step = Math.min(...values.slice(1).map((value, i) => Math.abs(value - values[i]))) / size;
  const digits = Math.min(12, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return value => (value / size).toFixed(digits) + unit;
}

/** An axis with its title, and what it writes at its ticks. */
function axis(title, {write = shortNumber, logarithmic = false, stacked = false, ...others} = {}) {
  return {
    type: logarithmic ? "logarithmic" : "linear", stacked, title: {display: true, text: title, color: colour("text")},
    grid: {color: colour("grid")}, ticks: {color: colour("muted"), callback: (value, _, all) => apart(all, write)(value), maxRotation: 0, autoSkipPadding: 12},
    ...others,
  };
}

/** Whether equal distances should be equal factors. */
const wantsLogarithm = values => values.every(value => value > 0) && Math.max(...values) / Math.min(...values) >= 8;

class Picture {
  /** `draw` makes of what `of` returns, rows or lines, {config of Chart.js, height, label: what it shows in words, columns, lines: its numbers}. */
  constructor(title, note, of, draw) {
    this.of = of;
    this.draw = draw;
    this.canvas = element("canvas", {role: "img", "aria-label": title});
    this.frame = element("div", {class: "canvas"}, this.canvas);
    this.title = title;
    this.numbers = details("The numbers", () => plainTable(title, this.drawn?.columns ?? [], this.drawn?.lines ?? []));
    this.figure = element("figure", {}, element("p", {class: "title"}, title), this.frame, element("figcaption", {}, note), this.numbers);
    this.stale = true;
    pictures.push(this);
    inSight.observe(this.figure);
    this.figure.picture = this;
  }

  /** Draws if anything has changed since. */
  show() {
    if (!this.stale) return;
    this.stale = false;
    const of = this.of();
    this.drawn = of.length > 0 ? this.draw(of) : null;
    this.chart?.destroy();
    this.chart = null;
    this.figure.classList.toggle("empty", !this.drawn);
    const numbers = this.numbers.querySelector(".scrolling");
    if (!this.drawn) return;
    const {config, height = 300, label} = this.drawn;
    this.frame.style.height = height + "px";
    this.canvas.setAttribute("aria-label", `${this.title}. ${label}`);
    config.options = {...config.options, responsive: true, maintainAspectRatio: false, animation: false};
    this.chart = new Chart(this.canvas, config);
    if (numbers) {
      numbers.remove();
      this.numbers.fill();
    }
  }

  /** What it shows has changed. */
  touch() {
    this.stale = true;
    this.figure.classList.remove("empty"); // what is hidden never comes into sight
    if (this.seen) this.show();
  }
}

const pictures = [];
const inSight = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    target.picture.seen = isIntersecting;
    if (isIntersecting) target.picture.show();
  }
}, {rootMargin: "400px"});

function themeCharts() {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.color = colour("text");
  Chart.defaults.borderColor = colour("grid");
}

/** All again, in today's colours. */
function redrawAll() {
  themeCharts();
  for (const picture of pictures) picture.touch();
}

/** Paper is light, and has no place to scroll. */
function beforePrint() {
  document.documentElement.classList.add("print");
  themeCharts();
  for (const picture of pictures) {
    picture.stale = true;
    picture.show();
    picture.chart?.resize();
  }
}

function afterPrint() {
  document.documentElement.classList.remove("print");
  redrawAll();
}
