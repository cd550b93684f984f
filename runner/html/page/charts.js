// Charts as figures: drawn when they come into sight or are printed, in the page's colours, with their numbers as a table beside them.

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const lineColour = i => colour("line-" + (i % 8 + 1));
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

/** Names beside points, those that would cover another one left out. */
const pointNames = {
  id: "pointNames",
  afterDatasetsDraw(chart) {
    const {ctx, chartArea: {right}} = chart, taken = [];
    ctx.save();
    ctx.font = "11px " + Chart.defaults.font.family;
    ctx.fillStyle = colour("text");
    chart.data.datasets.forEach((dataset, d) => (dataset.names ?? []).forEach((name, i) => {
      const point = chart.getDatasetMeta(d).data[i], text = cut(name, 28), width = ctx.measureText(text).width;
      const x = point.x + 7 + width > right ? point.x - 7 - width : point.x + 7, y = point.y - 5;
      if (taken.some(other => x < other.x + other.width && other.x < x + width && Math.abs(other.y - y) < 12)) return;
      taken.push({x, y, width});
      ctx.fillText(text, x, y);
    }));
    ctx.restore();
  },
};

/** An axis with its title, and what it writes at its ticks. */
function axis(title, {write = shortNumber, logarithmic = false, stacked = false, ...others} = {}) {
  return {
    type: logarithmic ? "logarithmic" : "linear", stacked, title: {display: true, text: title, color: colour("text")},
    grid: {color: colour("grid")}, ticks: {color: colour("muted"), callback: value => write(value), maxRotation: 0, autoSkipPadding: 12},
    ...others,
  };
}

/** Whether equal distances should be equal factors. */
const wantsLogarithm = values => values.every(value => value > 0) && Math.max(...values) / Math.min(...values) >= 8;

class Picture {
  /** `draw` returns {config of Chart.js, height, label: what it shows in words, columns, lines: its numbers}; null: nothing now. */
  constructor(title, note, draw) {
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
    this.drawn = this.draw();
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
