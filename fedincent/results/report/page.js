"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// Every text goes in as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value; else if (name.startsWith("on")) node.addEventListener(name.slice(2), value); else node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
function draw(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
const percent = value => value === null || value === undefined ? "–" : (100 * value).toFixed(1) + " %";
const short = value => value === null || value === undefined ? "undefined" : Math.abs(value) >= 1000 ? value.toFixed(0) : String(+value.toPrecision(3));
function metric(name, value) {
  if (value === undefined) return "–";
  if (value === null) return "undefined";
  const { scale } = data.metrics[name];
  return scale === 100 ? (100 * value).toFixed(1) : value.toFixed(2);
}

// A table whose headings sort it; rows: {cells: [{text, sort, small, class}], open}.
function table(headings, rows, textColumns = 1) {
  const head = make("tr"), body = make("tbody");
  const show = () => body.replaceChildren(...rows.map(row => row.node));
  headings.forEach((name, column) => {
    const cell = make("th", column < textColumns ? { class: "text", scope: "col" } : { scope: "col" });
    cell.append(make("button", { type: "button", onclick: () => {
      const down = cell.getAttribute("aria-sort") === "descending" || column < textColumns && !cell.hasAttribute("aria-sort");
      head.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "ascending" : "descending");
      const key = row => row.cells[column].sort ?? row.cells[column].text;
      const missing = value => value === null || value === undefined || value === "";
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
        return down ? order : -order;
      });
      show();
    } }, name));
    head.append(cell);
  });
  for (const row of rows) {
    row.node = make("tr");
    row.cells.forEach((cell, column) => row.node.append(make("td", { class: [column < textColumns ? "text" : "", cell.class ?? ""].join(" ").trim() },
      cell.text, cell.small ? make("small", {}, cell.small) : null)));
    if (row.open) {
      row.node.className = "link";
      row.node.tabIndex = 0;
      row.node.addEventListener("click", () => row.open(row.node));
      row.node.addEventListener("keydown", event => { if (event.key === "Enter") row.open(row.node); });
    }
  }
  show();
  return make("table", {}, make("thead", {}, head), body);
}

// Charts: plain SVG with round numbers on the axes and a tip at every mark.
function ticks(low, high, count = 5) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) found.push(+value.toPrecision(12));
  return found;
}
function frame(title, xLabel, yLabel, [x0, x1], [y0, y1], label) {
  const width = 400, height = 280, left = 52, right = 12, top = 10, bottom = 40;
  if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const padX = (x1 - x0) * 0.04, padY = (y1 - y0) * 0.05;
  [x0, x1, y0, y1] = [x0 - padX, x1 + padX, y0 - padY, y1 + padY];
  const x = value => left + (value - x0) / (x1 - x0) * (width - left - right);
  const y = value => height - bottom - (value - y0) / (y1 - y0) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const value of ticks(x0, x1)) {
    svg.append(draw("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: height - bottom }));
    svg.append(draw("text", { x: x(value), y: height - bottom + 14, "text-anchor": "middle" }, label?.x ? label.x(value) : short(value)));
  }
  for (const value of ticks(y0, y1)) {
    svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, label?.y ? label.y(value) : short(value)));
  }
  svg.append(draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel));
  svg.append(draw("text", { x: 12, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, yLabel));
  return { svg, x, y, figure: make("figure", {}, make("figcaption", {}, title), svg) };
}
const span = values => { const known = values.filter(v => v !== null); return known.length ? [Math.min(...known), Math.max(...known)] : [0, 1]; };
const whole = { x: v => Math.round(100 * v) + " %", y: v => Math.round(100 * v) + " %" };

function scatter(title, xs, ys, xLabel, yLabel, options = {}) {
  const ranges = options.identity ? [span([...xs, ...ys]), span([...xs, ...ys])] : [span(xs), span(ys)];
  const chart = frame(title, xLabel, yLabel, ranges[0], ranges[1], options.label);
  if (options.identity) {
    const [low, high] = ranges[0];
    chart.svg.append(draw("line", { class: "guide", x1: chart.x(low), y1: chart.y(low), x2: chart.x(high), y2: chart.y(high) }));
  }
  xs.forEach((value, i) => {
    if (value === null || ys[i] === null) return;
    chart.svg.append(draw("circle", { class: "mark", cx: chart.x(value), cy: chart.y(ys[i]), r: 5, "data-tip": options.tip(i) }));
  });
  return chart.figure;
}
function curve(run) {
  const { what, round, mean, low, high, q1, q3 } = run.curve;
  const accuracy = what === "accuracy";
  const title = accuracy ? "Accuracy over rounds: mean, middle half and range of the clients" : "Training loss over rounds (accuracies were not judged: eval_every=0)";
  const chart = frame(title, "round", accuracy ? "test accuracy" : "mean training loss", span(round), span([...mean, ...(low ?? []), ...(high ?? [])]), accuracy ? { y: whole.y } : {});
  const path = values => values.map((v, i) => `${i ? "L" : "M"}${chart.x(round[i])} ${chart.y(v)}`).join("");
  const band = (lower, upper) => draw("path", { class: "band", d: path(upper) + lower.map((v, i) => [round[i], v]).reverse().map(([r, v]) => `L${chart.x(r)} ${chart.y(v)}`).join("") + "Z" });
  if (low) chart.svg.append(band(low, high), band(q1, q3));
  chart.svg.append(draw("path", { class: "curve", d: path(mean) }));
  mean.forEach((v, i) => chart.svg.append(draw("circle", { class: "mark", cx: chart.x(round[i]), cy: chart.y(v), r: round.length > 80 ? 2 : 3,
    "data-tip": `round ${round[i]}\n${accuracy ? percent(v) : short(v)}` + (low ? `\n${percent(low[i])} to ${percent(high[i])}` : "") })));
  return chart.figure;
}
function heat(counts) {
  const rows = counts.length, columns = counts[0].length, width = 400, left = 34, top = 8, bottom = 26;
  const cellWidth = (width - left - 8) / columns, cellHeight = Math.max(3, Math.min(18, 230 / rows)), height = top + rows * cellHeight + bottom;
  const most = Math.max(...counts.flat(), 1);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "samples by client and class" });
  counts.forEach((row, i) => row.forEach((count, k) => svg.append(draw("rect", { class: "cell", x: left + k * cellWidth, y: top + i * cellHeight, width: cellWidth * 0.96, height: cellHeight * 0.94,
    "fill-opacity": count ? 0.12 + 0.88 * Math.sqrt(count / most) : 0.03, "data-tip": `client ${i}, class ${k}\n${count} samples` }))));
  for (const i of [0, rows - 1]) svg.append(draw("text", { x: left - 5, y: top + (i + 0.5) * cellHeight + 4, "text-anchor": "end" }, i));
  for (const k of columns > 1 ? [0, columns - 1] : [0]) svg.append(draw("text", { x: left + (k + 0.5) * cellWidth, y: height - 10, "text-anchor": "middle" }, k));
  svg.append(draw("text", { x: (left + width) / 2, y: height - 10, "text-anchor": "middle" }, "class"));
  return make("figure", {}, make("figcaption", {}, "Who holds what: samples by client (down) and class (across)"), svg);
}
function dots(title, items, label) {
  const height = 34 + 22 * items.length, width = 400, left = 130, right = items.some(item => item.text.length > 6) ? 108 : 46;
  let [low, high] = span([0, ...items.map(item => item.value)]);
  if (low === high) high += 1;
  if (low < 0) low -= 0.18 * (high - low);
  const x = value => left + (value - low) / (high - low) * (width - left - right);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const value of ticks(low, high, 4)) {
    svg.append(draw("line", { class: "axis", x1: x(value), x2: x(value), y1: 4, y2: height - 22 }));
    svg.append(draw("text", { x: x(value), y: height - 8, "text-anchor": "middle" }, label(value)));
  }
  items.forEach((item, k) => {
    const y = 18 + 22 * k;
    svg.append(draw("text", { x: left - 8, y: y + 4, "text-anchor": "end", "data-tip": item.name }, item.name.length > 18 ? item.name.slice(0, 17) + "…" : item.name));
    if (item.value === null) { svg.append(draw("text", { x: x(Math.max(low, 0)) + 6, y: y + 4 }, "undefined")); return; }
    svg.append(draw("line", { class: "curve", x1: x(Math.max(low, 0)), x2: x(item.value), y1: y, y2: y }));
    svg.append(draw("circle", { class: "mark", cx: x(item.value), cy: y, r: 6, "data-tip": `${item.name}\n${item.text}\n${item.detail}` }));
    svg.append(draw("text", item.value < 0 ? { x: x(item.value) - 10, y: y + 4, "text-anchor": "end" } : { x: x(item.value) + 10, y: y + 4 }, item.text));
  });
  return make("figure", {}, make("figcaption", {}, title), svg);
}

// Sections.
function overview() {
  const dates = data.runs.map(run => run.when).filter(when => when).sort();
  const versions = [...new Set(data.runs.map(run => `torch ${run.versions.torch}`))].join(", ");
  const hours = data.runs.reduce((sum, run) => sum + run.seconds, 0) / 3600;
  const facts = [[data.of_audits ? `runs, and ${data.of_audits} of audits (their pictures: Figures)` : "runs", data.runs.length], ["mechanisms", new Set(data.runs.map(run => run.choices.mechanism)).size],
    ["data sets", new Set(data.runs.map(run => run.choices.dataset)).size], ["hours of running", hours.toFixed(1)],
    ["first and last", dates.length ? `${dates[0].slice(0, 10)} – ${dates[dates.length - 1].slice(0, 10)}` : "–"], ["versions", `fedincent ${data.version}, ${versions || "–"}`]];
  at("facts").append(...facts.map(([name, value]) => make("div", { class: "fact" }, make("b", {}, String(value)), name)));
  if (data.tables.length) {
    const rows = data.tables.map(t => ({ cells: [{ text: t.name }, { text: t.title }, { text: `${t.done} of ${t.cells}`, sort: t.done / t.cells }, { text: t.compared ? `${t.agree} of ${t.compared}` : "–", sort: t.compared ? t.agree / t.compared : null }],
      open: () => { at("table-choice").value = t.name; tables(); at("tables").scrollIntoView(); } }));
    at("progress").append(make("h3", {}, "Cells of the tables"), make("div", { class: "scroll" }, table(["table", "what", "cells run", "agree"], rows, 2)));
  } else at("progress").append(make("p", { class: "dim" }, "No run belongs to a paper's table yet: fedincent table iafl-1 --run"));
  const trouble = [...data.damaged.map(d => `${d.path}: ${d.why}`), ...data.unfinished.map(name => `${name}: not finished`)];
  if (trouble.length) at("trouble").append(make("h3", {}, "Not shown"), make("pre", {}, trouble.join("\n")));
}
function tables() {
  const t = data.tables.find(candidate => candidate.name === at("table-choice").value);
  if (!t) { at("table-view").replaceChildren(make("p", { class: "dim" }, "Nothing of any table was run.")); return; }
  const words = at("table-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = t.rows.filter(row => words.every(word => `${row.dataset} ${row.setting} ${row.metric}`.toLowerCase().includes(word))).map(row => ({
    cells: [{ text: row.dataset }, { text: row.setting }, { text: row.metric }, ...row.cells.map(cell => ({
      text: cell.ours + (cell.agrees === true ? " ✓" : cell.agrees === false ? " ✗" : ""), small: t.printed ? cell.paper : null, sort: cell.value,
      class: cell.agrees === true ? "agree" : cell.agrees === false ? "differ" : "" }))] }));
  at("table-legend").hidden = !t.printed;
  at("table-view").replaceChildren(make("h3", {}, `${t.name}: ${t.title}`), make("div", { class: "scroll" }, table(["data", "setting", "metric", ...t.methods], rows, 3)),
    ...t.notes.map(note => make("p", { class: "hint" }, note)));
}
// Own runs, published ones, or both.
const shown = () => data.runs.filter(run => at("source").value === "all" || (at("source").value === "published") === Boolean(run.published));
function compare() {
  const here = shown().filter(run => run.setting === at("setting-choice").value);
  const chosen = here.filter(run => run.choices.mechanism !== "standalone"), alone = here.filter(run => run.choices.mechanism === "standalone");
  const names = [...new Set(chosen.map(run => run.variant))].sort();
  const items = key => [...(key.startsWith("accuracy") && key !== "accuracy_gain" ? [["alone", alone]] : []), ...names.map(name => [name, chosen.filter(run => run.variant === name)])]
    .filter(([, runs]) => runs.length).map(([name, runs]) => {
      const known = runs.map(run => run.metrics[key]).filter(value => value !== null && value !== undefined);
      const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
      const error = known.length > 1 ? Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (known.length - 1) / known.length) : null;
      const lost = runs.length - known.length;
      const text = mean === null ? "undefined" : `${metric(key, mean)}${error === null ? "" : " ±" + metric(key, error)}${runs.length > 1 ? ` (n ${known.length})` : ""}`;
      return { name, value: mean, text, detail: `${runs.length} run${runs.length > 1 ? "s" : ""}${lost ? `, ${lost} undefined` : ""}` };
    });
  const charts = ["ipr_accuracy", "pearson", "accuracy_mean", "accuracy_gain"].map(key => dots(data.metrics[key].label, items(key), value => metric(key, value)));
  at("compare-view").replaceChildren(make("div", { class: "charts" }, ...charts));
}
function figures() {
  if (!data.figures.length) { at("figures").hidden = true; at("to-figures").hidden = true; return; }
  at("figure-choice").append(...data.figures.map(figure => make("option", { value: figure.name }, figure.name)));
  const show = () => {
    const figure = data.figures.find(candidate => candidate.name === at("figure-choice").value);
    at("figure-view").replaceChildren(make("figure", { class: "picture" }, make("img", { src: `data:image/png;base64,${figure.png}`, alt: figure.name })));
  };
  at("figure-choice").addEventListener("change", show);
  show();
}
function runs() {
  const words = at("run-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = shown().filter(run => words.every(word => `${run.name} ${run.setting}`.toLowerCase().includes(word)));
  at("run-count").textContent = `${found.length} of ${data.runs.length}`;
  const columns = Object.keys(data.metrics);
  const rows = found.map(run => ({
    cells: [{ text: run.variant }, { text: run.setting }, { text: String(run.seed), sort: run.seed },
      ...columns.map(name => ({ text: metric(name, run.metrics[name]), sort: run.metrics[name] })), { text: run.published ? `published: ${run.published}` : run.when.replace("T", " ") }],
    open: node => { at("run-list").querySelectorAll(".chosen").forEach(other => other.classList.remove("chosen")); node.classList.add("chosen"); open(run); } }));
  at("run-list").replaceChildren(table(["mechanism", "setting", "seed", ...columns.map(name => data.metrics[name].label), "when"], rows, 2));
}
function open(run) {
  const c = run.clients, tip = i => `client ${i}, ${c.n_samples[i]} samples\nalone ${percent(c.standalone_accuracy[i])}, final ${percent(c.accuracy[i])}\ncontribution ${short(c.contribution[i])}`;
  const share = run.reward_label !== "final accuracy";
  const charts = [
    scatter("Who gains: final against standalone accuracy (above the line: better off)", c.standalone_accuracy, c.accuracy, "alone", "final", { identity: true, label: whole, tip }),
    curve(run),
    scatter(`Reward against contribution: ${run.reward_label}`, c.contribution, c.reward, "contribution", share ? "share" : "accuracy", { label: share ? {} : { y: whole.y }, tip: i => `${tip(i)}\nreward ${short(c.reward[i])}` }),
    run.partition ? heat(run.partition) : make("figure", {}, make("figcaption", {}, "Who holds what"), make("p", { class: "dim" }, "This run did not note its partition.")),
  ];
  const facts = Object.keys(data.metrics).filter(name => name in run.metrics).map(name => make("div", { class: "fact" }, make("b", {}, metric(name, run.metrics[name])), data.metrics[name].label));
  at("run-view").replaceChildren(make("h3", {}, run.name), make("div", { class: "facts" }, ...facts), ...run.notes.map(note => make("p", { class: "hint" }, `note: ${note}`)),
    make("h3", {}, "The command"), make("pre", { class: "wrap" }, run.command), make("div", { class: "charts" }, ...charts),
    make("details", {}, make("summary", {}, `configuration, ${run.seconds} s, torch ${run.versions.torch}`), make("pre", {}, run.config)));
  at("run-view").scrollIntoView({ block: "nearest" });
}

// Hover, theme, and the start.
const tip = at("tip");
function point(event) {
  const text = event.target.getAttribute && event.target.getAttribute("data-tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 8)) + "px";
}
document.addEventListener("mousemove", point);
document.addEventListener("touchstart", event => point({ target: event.target, clientX: event.touches[0].clientX, clientY: event.touches[0].clientY }));
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = on => document.documentElement.classList.toggle("dark", on);
theme(dark.matches);
dark.addEventListener("change", event => theme(event.matches));
at("theme").addEventListener("click", () => theme(!document.documentElement.classList.contains("dark")));
at("table-choice").append(...[...data.tables].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true })).map(t => make("option", { value: t.name }, t.name)));
at("setting-choice").append(...[...new Set(data.runs.map(run => run.setting))].sort().map(name => make("option", { value: name }, name)));
const counts = {};
data.runs.forEach(run => { if (run.choices.mechanism !== "standalone") counts[run.setting] = (counts[run.setting] ?? 0) + 1; });
at("setting-choice").value = Object.keys(counts).sort((a, b) => counts[b] - counts[a])[0] ?? "";
if (data.tables.length) at("table-choice").value = data.tables[0].name;
at("table-choice").addEventListener("change", tables);
at("table-filter").addEventListener("input", tables);
at("setting-choice").addEventListener("change", compare);
at("run-filter").addEventListener("input", runs);
at("source").addEventListener("change", () => { compare(); runs(); });
overview(); tables(); compare(); figures(); runs();
const first = data.runs.find(run => run.choices.mechanism !== "standalone") ?? data.runs[0];
if (first) { open(first); scrollTo(0, 0); }
