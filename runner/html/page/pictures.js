// Which charts a result has. Each returns null where there is nothing to show; all draw the rows that the table shows, in its order.

const kMostBars = 40, kMostLines = 8;

/** What a step is made of, as far as a kind measures it. */
const kParts = {
  training: [["forward_ms", "forward"], ["backward_ms", "backward"], ["exposed_ms", "exposed"], ["skew_ms", "skew"], ["optimizer_ms", "optimizer"]],
  attention: [["forward_ms", "forward"], ["backward_ms", "backward"]],
};

const narrow = () => innerWidth < 600;
const rowWord = rows => rows.length === 1 ? "1 row" : rows.length + " rows";
const firstOf = (rows, most) => rows.length > most ? `the first ${most} of ${rows.length} rows` : rowWord(rows);

/** Bars that lie, one below another, parts beside each other. datasets: [{label, data, colour, spreads}]. */
function barConfig(labels, datasets, title, write = shortNumber) {
  return {
    type: "bar",
    data: {
      labels: fitting(labels, narrow() ? 24 : 36),
      datasets: datasets.map(({colour: own, ...each}) => ({backgroundColor: own, stack: "one", maxBarThickness: 26, ...each})),
    },
    options: {
      indexAxis: "y",
      scales: {x: axis(title, {stacked: true, write, suggestedMax: Math.max(...datasets.flatMap(each => each.spreads ?? []).map(each => each?.[2] ?? 0))}), y: {stacked: true, grid: {display: false}, ticks: {color: colour("text"), autoSkip: false}}},
      plugins: {
        legend: {display: datasets.length > 1, labels: {boxWidth: 12}},
        tooltip: {callbacks: {title: items => labels[items[0].dataIndex], label: item => `${item.dataset.label}: ${write(item.parsed.x)}`}},
      },
    },
    plugins: [spreadMarks],
  };
}

const barsHeight = (bars, legends) => 90 + bars * 28 + (narrow() ? Math.ceil(legends / 3) : 1) * 20;

/** One entry, which shows and hides, for all lines of a group: the runs of a row. */
function legendOfGroups(lines) {
  const groupAt = i => lines[i].group ?? lines[i].label;
  const isFirst = i => lines.findIndex(line => (line.group ?? line.label) === groupAt(i)) === i;
  const texts = fitting(lines.map((_, i) => groupAt(i)), narrow() ? 28 : 48);
  return {
    labels: {boxWidth: 18, filter: item => isFirst(item.datasetIndex), generateLabels: chart => Chart.defaults.plugins.legend.labels.generateLabels(chart)
      .map(item => ({...item, text: texts[item.datasetIndex], lineDash: []}))},
    onClick: (_, item, {chart}) => {
      const visible = chart.isDatasetVisible(item.datasetIndex);
      lines.forEach((_, i) => { if (groupAt(i) === groupAt(item.datasetIndex)) chart.setDatasetVisibility(i, !visible); });
      chart.update();
    },
  };
}

/** Legends take their place from the lines. */
const linesHeight = lines => 280 + 20 * Math.ceil(new Set(lines.map(line => line.group ?? line.label)).size / (narrow() ? 1 : 2));

/** From the first value to the last, with ticks where they are. */
const ticksAt = xs => ({min: Math.min(...xs), max: Math.max(...xs), afterBuildTicks: scale => { if (xs.length <= 12) scale.ticks = [...new Set(xs)].sort((a, b) => a - b).map(value => ({value})); }});

/** lines: [{label, points: [{x, y}], group, ...options of Chart.js}] */
function lineConfig(lines, xAxis, yAxis, plugins = {}) {
  const labels = fitting(lines.map(line => line.label), narrow() ? 28 : 48);
  return {
    type: "line",
    data: {
      datasets: lines.map(({points, ...own}, i) => ({
        data: points, borderColor: lineColour(i), backgroundColor: lineColour(i), borderWidth: 2,
        borderDash: kDashes[Math.floor(i / 8) % 4], pointRadius: points.length > 60 ? 0 : 2.5, tension: 0, ...own, label: labels[i],
      })),
    },
    options: {
      parsing: false, interaction: {mode: "nearest", intersect: false},
      scales: {x: xAxis, y: yAxis},
      plugins: {legend: {display: lines.length > 1, ...legendOfGroups(lines)}, ...plugins},
    },
    plugins: [warmupBand],
  };
}

/** The numbers behind lines: x, and a column for each of them. */
function numbersOf(xTitle, lines) {
  const xs = [...new Set(lines.flatMap(line => line.points.map(point => point.x)))].sort((a, b) => a - b);
  const at = lines.map(line => new Map(line.points.map(point => [point.x, point.y])));
  return {
    columns: [{title: xTitle, number: true}, ...lines.map(line => ({title: line.label, number: true}))],
    lines: xs.map(x => [shortNumber(x), ...at.map(points => points.has(x) ? shortNumber(points.get(x)) : "–")]),
  };
}

/** "step ms", or the key of a quantity without a column. */
const titleOf = (view, kind, key) => {
  const {title = "", unit = ""} = view.quantity(kind, key) ?? {};
  const name = title || key.replace(/_(ms|us|bytes|gb_per_s)$/, "").replaceAll("_", " ");
  return unit && unit !== "bytes" && !name.includes(unit) ? `${name}, ${unit}` : name;
};

function timePicture(view, kind) {
  const time = view.timeKey(kind);
  if (!["training", "attention", "collectives"].includes(kind) || view.with(kind, time).length === 0) return null;
  const parts = kParts[kind] ?? [[time, "time"]];
  const title = kind === "collectives" ? "How long a call takes" : kind === "training" ? "What a step is made of" : "What a call is made of";
  const note = `Bars are ${kParts[kind] ? "the parts" : "medians"}, as in the table. The line is the whole, by the slowest rank: its long `
    + "mark is the table's figure, its ends are the quartiles of the steps (of several runs: ± the standard deviation between them).";
  return new Picture(title, note, () => view.with(kind, time), rows => {
    const drawn = rows.slice(0, kMostBars);
    const spreads = drawn.map(row => spreadOf(view, row));
    const used = parts.filter(([key]) => drawn.some(row => isNumber(row.figures[key])));
    const datasets = used.map(([key, name], i) => ({
      label: name, colour: colour("part-" + name), data: drawn.map(row => row.figures[key] ?? 0),
      spreads: i === used.length - 1 ? drawn.map((row, r) => spreads[r] && [spreads[r][0], row.figures[time], spreads[r][1]]) : undefined,
    }));
    const fastest = rows.reduce((best, row) => row.figures[time] < best.figures[time] ? row : best);
    return {
      config: barConfig(drawn.map(row => row.brief), datasets, titleOf(view, kind, time)), height: barsHeight(drawn.length, used.length),
      label: `Bars of ${firstOf(rows, kMostBars)}. The shortest time is that of ${fastest.name}: ${shortNumber(fastest.figures[time])}.`,
      columns: [{title: "row"}, {title: titleOf(view, kind, time), number: true}, {title: "from", number: true}, {title: "to", number: true}, {title: "which are"},
        ...used.map(([, name]) => ({title: name, number: true}))],
      lines: drawn.map((row, r) => [row.name, shortNumber(row.figures[time]), shortNumber(spreads[r]?.[0]), shortNumber(spreads[r]?.[1]), spreads[r]?.[2] ?? "–",
        ...used.map(([key]) => shortNumber(row.figures[key]))]),
    };
  });
}

/** A line for each run of the first rows: samples by step. keys: [[key, how, options]] */
function samplesOf(rows, keys) {
  const lines = [];
  rows.slice(0, kMostLines).forEach((row, r) => row.measured.forEach((run, i) => keys.forEach(([key, how, words, options]) => {
    const steps = stepsOf(run, key, how);
    if (steps.length === 0) return;
    const own = row.measured.length > 1 ? `, run ${i + 1}` : "";
    lines.push({label: row.brief + own + words, points: steps.map(each => ({x: each.step, y: each.value})), steps, group: row.brief + words,
      borderColor: lineColour(r), backgroundColor: lineColour(r), borderDash: [], ...own && {borderWidth: 1, pointRadius: 0}, ...options});
  })));
  return lines;
}

function samplesPicture(view, kind) {
  const time = view.timeKey(kind);
  const some = view.with(kind, time).some(row => row.rank0.samples.step.length > 2);
  if (!["training", "attention", "collectives"].includes(kind) || !some) return null;
  return new Picture(kind === "training" ? "Each step" : "Each call", "The slowest rank of each, warm-up included. What the table says is of those behind the shaded part.", () => view.with(kind, time), rows => {
    const lines = samplesOf(rows, [[time, overRanks(kind), "", {}]]);
    const measured = lines.flatMap(line => line.steps.filter(each => !each.warmup));
    const highest = measured.reduce((most, each) => Math.max(most, each.value), 0); // of more than a call takes arguments
    const beyond = lines.some(line => line.steps.some(each => each.value > 2 * highest)); // a warm-up would flatten all others
    const logarithmic = kind !== "training" && wantsLogarithm(rows.slice(0, kMostLines).map(row => row.figures[time]));
    const yAxis = axis(titleOf(view, kind, time), logarithmic ? {logarithmic} : {beginAtZero: true, ...beyond && {max: Number((2 * highest).toPrecision(1))}});
    return {
      height: linesHeight(lines),
      config: lineConfig(lines, axis(kind === "training" ? "step" : "call", {write: value => Number.isInteger(value) ? value : ""}), yAxis,
        {warmupBand: {until: measured.reduce((least, each) => Math.min(least, each.step), Infinity) - 0.5}}),
      label: `Lines of ${firstOf(rows, kMostLines)}.${beyond && !logarithmic ? " Some calls of the warm-up lie above what is shown." : ""}`, ...numbersOf("step", lines),
    };
  });
}

function lossPicture(view, kind) {
  if (kind !== "training" || view.with(kind, "loss").length === 0) return null;
  const validated = view.rows.some(row => row.kind === kind && stepsOf(row.runs[0], "validation_loss", "mean").length > 0);
  return new Picture("Loss", `The mean over the ranks, warm-up included. Equal lines lie on each other.${validated ? " Dots are the validation loss." : ""}`, () => view.with(kind, "loss"), rows => {
    const lines = samplesOf(rows, [["loss", "mean", "", {pointRadius: 0}],
      ["validation_loss", "mean", ", validation", {showLine: false, pointRadius: 4, pointStyle: "rectRot"}]]);
    const last = rows.filter(row => isNumber(row.figures.loss)).reduce((best, row) => row.figures.loss < best.figures.loss ? row : best);
    return {
      height: linesHeight(lines),
      config: lineConfig(lines, axis("step", {write: value => Number.isInteger(value) ? value : ""}), axis("loss")),
      label: `Lines of ${firstOf(rows, kMostLines)}. The least loss of a last step is ${shortNumber(last.figures.loss)}, of ${last.name}.`, ...numbersOf("step", lines),
    };
  });
}

/** Rows that are equal but for `keys`, in groups of two at least: [{label, rows}]. */
function groupsOf(rows, keys, also = () => "") {
  const others = differingKeys(rows).filter(key => !keys.includes(key) && key !== "name");
  const labelOf = (row, of) => of.filter(key => row.flat[key] !== undefined).map(key => briefly(key, String(row.flat[key]))).join(", ");
  const groups = new Map();
  for (const row of rows) {
    const {...rest} = row.flat;
    for (const key of [...keys, "name"]) delete rest[key];
    const id = JSON.stringify(rest) + also(row);
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(row);
  }
  const found = [...groups.values()].filter(group => group.length > 1);
  // The names of plugins, and what else tells the groups apart.
  const apart = keys => new Set(found.map(group => labelOf(group[0], keys))).size;
  const named = others.filter(key => key.endsWith(".name"));
  const told = others.filter(key => !named.includes(key)).reduce((used, key) => apart([...used, key]) > apart(used) ? [...used, key] : used, named);
  return found.map(group => ({rows: group, label: labelOf(group[0], told)}));
}

/** Efficiency, or the speed that follows from it, on more ranks: a line for each work. */
function scalingLines(view, kind, asSpeed) {
  const lines = [];
  for (const [mode, key] of [["strong", "strong_efficiency"], ["weak", "weak_efficiency"]]) {
    const tokens = row => row.first.work?.tokens / (mode === "weak" ? row.ranks : 1);
    for (const {rows, label} of groupsOf(view.with(kind, key), ["world.size", "train.global_batch", "train.batch_per_rank"], tokens)) {
      const ordered = [...rows].sort((a, b) => a.ranks - b.ranks), least = ordered[0].ranks;
      if (ordered.at(-1).ranks === least) continue;
      lines.push({label: [label, mode].filter(Boolean).join(", "), least, borderDash: mode === "weak" ? [6, 3] : [],
        points: ordered.map(row => ({x: row.ranks, y: asSpeed ? row.figures[key] * row.ranks / least : 100 * row.figures[key]}))});
    }
  }
  return lines;
}

function scalingPicture(view, kind, asSpeed) {
  const all = () => scalingLines(view, kind, asSpeed);
  if (kind !== "training" || all().length === 0) return null;
  const [title, unit] = asSpeed ? ["Speed on more ranks", "speed, times the fewest ranks'"] : ["Efficiency on more ranks", "efficiency, %"];
  const words = [["strong", "Strong: the same tokens of a step on more ranks."], ["weak", "Weak: each rank keeps its tokens."]]
    .filter(([mode]) => view.with(kind, mode + "_efficiency").length > 0).map(([, text]) => text);
  return new Picture(title, [...words, asSpeed ? "Speed is in tokens/s. Dotted: twice the ranks, twice as fast." : "Dotted: nothing is lost."].join(" "), all, lines => {
    const ranks = [...new Set(lines.flatMap(line => line.points.map(point => point.x)))].sort((a, b) => a - b);
    const least = Math.min(...lines.map(line => line.least));
    const ideal = {label: "ideal", points: ranks.map(x => ({x, y: asSpeed ? x / least : 100})), borderColor: colour("muted"), backgroundColor: colour("muted"), borderDash: [2, 3], pointRadius: 0};
    const worst = lines.reduce((low, line) => line.points.at(-1).y < low.points.at(-1).y ? line : low);
    const end = worst.points.at(-1);
    return {
      height: linesHeight(lines),
      config: lineConfig([...lines, ideal], axis("ranks", ticksAt(ranks)),
        axis(unit, {beginAtZero: true})),
      label: `The lowest line, ${worst.label}, has ${shortNumber(end.y)} on ${end.x} ranks.`, ...numbersOf("ranks", lines),
    };
  });
}

function memoryPicture(view, kind) {
  const time = view.timeKey(kind), memory = kind === "attention" ? "peak_bytes" : "peak_memory_bytes";
  const both = () => view.with(kind, memory).filter(row => isNumber(row.figures[time]));
  const sizes = both().map(row => row.figures[memory]);
  if (sizes.length < 2 || Math.max(...sizes) < 1.01 * Math.min(...sizes)) return null; // nothing to choose
  return new Picture("Time against memory", "Lower left is better. The line joins the rows of which no other is both faster and smaller (the Pareto front).", both, rows => {
    const points = rows.map(row => ({x: row.figures[memory], y: row.figures[time], name: row.brief}));
    const front = [];
    for (const point of [...points].sort((a, b) => a.x - b.x || a.y - b.y)) {
      if (front.length === 0 || point.y < front.at(-1).y) front.push(point);
    }
    const best = new Set(front);
    return {
      height: 380,
      config: {
        type: "scatter",
        data: {datasets: [
          {label: "rows", data: points, names: fitting(points.map(point => point.name), 28), pointRadius: points.map(point => best.has(point) ? 6 : 4),
            backgroundColor: points.map(point => colour(best.has(point) ? "line-1" : "muted"))},
          {label: "Pareto front", data: front, showLine: true, pointRadius: 0, borderColor: colour("line-1"), borderWidth: 1.5, stepped: "before"},
        ]},
        options: {
          scales: {x: axis("peak memory of a rank", {write: shortBytes}), y: axis(titleOf(view, kind, time), {grace: "10%"})},
          plugins: {legend: {display: false}, tooltip: {filter: item => item.datasetIndex === 0,
            callbacks: {label: ({raw}) => `${raw.name}: ${shortNumber(raw.y)}, ${shortBytes(raw.x)}`}}},
        },
        plugins: [pointNames],
      },
      label: `On the front: ${front.map(point => `${point.name} (${shortBytes(point.x)}, ${shortNumber(point.y)})`).slice(0, 8).join("; ")}.`,
      columns: [{title: "row"}, {title: "memory", number: true}, {title: titleOf(view, kind, time), number: true}, {title: "on the front"}],
      lines: points.map(point => [point.name, shortBytes(point.x), shortNumber(point.y), best.has(point) ? "yes" : "no"]),
    };
  });
}

/** Keys whose values are numbers, and differ; not ranks, which have pictures of their own, and what only names or follows. */
function sweptNumbers(view, kind) {
  const rows = view.rows.filter(row => row.kind === kind && row.measured.length > 0);
  const follows = kind === "training" ? /^(world\.size|train\.(global_batch|batch_per_rank)|.*seed)$/ : /seed$/;
  return differingKeys(rows).filter(key => !follows.test(key) && rows.every(row => row.flat[key] === undefined || isNumber(row.flat[key])));
}

/** A figure by a swept number: exposed communication by the buckets' size, busbw by the size of a call. */
function sweptPicture(view, kind, key, figure) {
  const lines = () => groupsOf(view.with(kind, figure).filter(row => isNumber(row.flat[key])), [key])
    .map(({rows, label}) => ({label: label || titleOf(view, kind, figure), points: rows.map(row => ({x: row.flat[key], y: row.figures[figure], share: row.figures[figure] / row.figures[view.timeKey(kind)]})).sort((a, b) => a.x - b.x)}))
    .filter(line => new Set(line.points.map(point => point.x)).size > 1);
  const moves = line => Math.max(...line.points.map(point => point.y)) > 1.01 * Math.min(...line.points.map(point => point.y));
  const counts = line => figure !== "exposed_ms" || line.points.some(point => point.share > 0.01);
  if (!lines().some(line => counts(line) && moves(line))) return null;
  const name = key.split(".").at(-1).replace(/_mb$/, ", MB").replaceAll("_", " ");
  return new Picture(capital(`${titleOf(view, kind, figure).split(",")[0]} by ${name.replace(", MB", " size")}`), `A line joins rows that differ in ${key} alone.`, lines, drawn => {
    const xs = drawn.flatMap(line => line.points.map(point => point.x)), ys = drawn.flatMap(line => line.points.map(point => point.y));
    const write = key.endsWith("bytes") ? shortBytes : shortNumber;
    const least = drawn.flatMap(line => line.points.map(point => ({...point, of: line.label}))).reduce((a, b) => b.y < a.y ? b : a);
    return {
      height: linesHeight(drawn.slice(0, 2 * kMostLines)),
      config: lineConfig(drawn.slice(0, 2 * kMostLines), axis(name, {write, logarithmic: wantsLogarithm(xs), ...ticksAt(xs)}),
        axis(titleOf(view, kind, figure), {logarithmic: kind !== "training" && wantsLogarithm(ys), beginAtZero: true, write: figure.endsWith("bytes") ? shortBytes : shortNumber})),
      label: `The least is ${shortNumber(least.y)} at ${write(least.x)}${drawn.length > 1 ? ", of " + least.of : ""}.`, ...numbersOf(name, drawn),
    };
  });
}

const kSweptFigures = {
  training: ["exposed_ms", "step_ms", "peak_memory_bytes"],
  collectives: ["time_us", "busbw_gb_per_s"],
  attention: ["time_ms", "tflops", "peak_bytes"],
  precision: ["error"],
  arithmetic: ["rank_gb", "compute_ms", "exposed_efficiency"],
};

/** Stacked bars of parts that each row has of its own: parts(row) = {name: value}. */
function partsPicture(view, kind, {title, note, unit, write, parts, colours = []}) {
  const all = () => view.shown.filter(row => row.kind === kind && parts(row));
  if (all().length === 0) return null;
  return new Picture(title, note, all, rows => {
    const drawn = rows.slice(0, kMostBars);
    const used = new Set(drawn.flatMap(row => Object.keys(parts(row)))), known = new Map(colours);
    const names = [...[...known.keys()].filter(name => used.has(name)), ...[...used].filter(name => !known.has(name))];
    const datasets = names.map((name, i) => ({label: name, colour: known.get(name) ?? partColour(i),
      data: drawn.map(row => parts(row)[name] ?? 0)}));
    const sums = drawn.map(row => Object.values(parts(row)).reduce((sum, value) => sum + value, 0));
    const most = sums.indexOf(Math.max(...sums));
    return {
      config: barConfig(drawn.map(row => row.brief), datasets, unit, write), height: barsHeight(drawn.length, 2 * names.length),
      label: `Bars of ${firstOf(rows, kMostBars)}. The longest is ${drawn[most].name}, ${write(sums[most])} in all.`,
      columns: [{title: "row"}, ...names.map(name => ({title: name, number: true}))],
      lines: drawn.map(row => [row.name, ...names.map(name => write(parts(row)[name]))]),
    };
  });
}

const memoryParts = row => row.rank0?.memory_peak && Object.fromEntries(row.rank0.memory_peak.categories.filter(([, bytes]) => bytes > 0));

/** All that a kind has, in order. */
function picturesOf(view, kind) {
  return [
    timePicture(view, kind),
    samplesPicture(view, kind),
    lossPicture(view, kind),
    scalingPicture(view, kind, true),
    scalingPicture(view, kind, false),
    ...sweptNumbers(view, kind).flatMap(key => (kSweptFigures[kind] ?? []).map(figure => sweptPicture(view, kind, key, figure))),
    memoryPicture(view, kind),
    partsPicture(view, kind, {title: "Memory at its peak, by what it is", note: "Of rank 0, in the step that was recorded.", unit: "memory", write: shortBytes, parts: memoryParts, colours: view.data.memory_colours}),
    partsPicture(view, kind, {title: "Operators of a step, by kind", note: "Of rank 0, in the step that was recorded, which is slower than others.", unit: "ms",
      write: shortNumber, parts: row => row.operators}),
  ].filter(Boolean);
}
