"use strict";
(() => {
  const D = JSON.parse(document.getElementById("page-data").textContent);
  const SHADES = 8;
  const NAMES = { same_topic: "same topic", cross_topic: "cross topic", same_token: "same word", no_topic: "unlabelled words",
    sink_mass: "to special tokens" };
  const words = (name) => NAMES[name] || String(name).replaceAll("_", " ");
  const $ = (id) => document.getElementById(id);
  const known = (value) => value !== null && value !== undefined;
  const number = (value, digits = 3) => known(value) ? Number(value.toPrecision(digits)).toString() : "none";
  const mean = (value) => known(value) ? value.toFixed(Math.abs(value) < 100 ? 3 : 0) : "none";
  const percent = (value) => known(value) ? `${(100 * value).toFixed(1)} %` : "none";
  const chance = (value) => !known(value) ? "none" : value < 0.001 ? "< 0.001" : value.toFixed(3);

  // Text only ever enters the page as text: nothing here parses markup.
  function make(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (known(value) && value !== false) node.setAttribute(key, value);
    node.append(...children.filter(known));
    return node;
  }
  function draw(name, attributes = {}, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (known(text)) node.textContent = text;
    return node;
  }

  // ---- light and dark
  const theme = $("theme");
  let stored = null;
  try { stored = localStorage.getItem("topic-probes-theme"); } catch { /* a page opened from disk may have no store */ }
  const setTheme = (value) => {
    if (value === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = value;
    theme.value = value;
    try { localStorage.setItem("topic-probes-theme", value); } catch { /* then it holds for this visit */ }
  };
  setTheme(["light", "dark"].includes(stored) ? stored : "auto");
  theme.addEventListener("change", () => setTheme(theme.value));

  // ---- tables as CSV
  const cell = (value) => {
    if (!known(value)) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text; // no spreadsheet runs it as a formula
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  function save(name, columns, rows) {
    const lines = [columns, ...rows].map((row) => row.map(cell).join(","));
    const address = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
    const link = make("a", { href: address, download: `topic_probes_${name}.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
  const hasStacks = D.heads.stack.some((stack) => stack !== "");
  const where = (row) => [...(hasStacks ? [D.heads.stack[row]] : []), D.heads.layer[row], D.heads.head[row]];
  const WHERE = [...(hasStacks ? ["stack"] : []), "layer", "head"];
  const rowsOfHeads = [...D.heads.layer.keys()];
  function headsTable() {
    const columns = ["ratio", "ratio_low", "ratio_high", "same_topic", "cross_topic", "p_value", "q_value"];
    const plain = Object.keys(D.plain[D.models[0]]);
    const rows = [];
    for (const model of D.models) for (const estimator of D.estimators) {
      const values = (D.values[model] || {})[estimator];
      if (!values) continue;
      for (const row of rowsOfHeads) rows.push([model, estimator, ...where(row), D.heads.n_same_topic[row], D.heads.n_cross_topic[row],
        ...columns.map((name) => values[name] && values[name][row]), ...plain.map((name) => D.plain[model][name][row])]);
    }
    return [["model", "estimator", ...WHERE, "n_same_topic", "n_cross_topic", ...columns, ...plain], rows];
  }
  const bucketsOf = (model, row) => D.curves.buckets[`${model}.${D.heads.stack[row]}.${D.heads.layer[row]}`];
  function curvesTable(only) {
    const rows = [];
    for (const [row, models] of Object.entries(D.curves.heads)) {
      if (known(only) && Number(row) !== only) continue;
      for (const [model, classes] of Object.entries(models)) for (const [name, means] of Object.entries(classes)) {
        const buckets = bucketsOf(model, row)[name];
        means.forEach((mean, at) => rows.push([model, ...where(row), name, buckets.distance[at], buckets.distance_high[at],
          buckets.n_pairs[at], mean]));
      }
    }
    return [["model", ...WHERE, "pair_class", "distance", "distance_high", "n_pairs", "mean"], rows];
  }
  for (const button of document.querySelectorAll("button.save")) button.addEventListener("click", () => {
    const name = button.dataset.table;
    if (name === "heads") save(name, ...headsTable());
    else if (name === "distance") save(name, ...curvesTable());
    else save(name, D.tables[name].columns, D.tables[name].rows);
  });

  // ---- charts
  const ticksOf = (low, high, log) => {
    if (log) {
      const ticks = [];
      for (let power = Math.ceil(Math.log2(low) - 1e-9); power <= Math.log2(high) + 1e-9; power++) ticks.push(2 ** power);
      if (ticks.length >= 5) return ticks.filter((_, at) => at % Math.ceil(ticks.length / 8) === 0);
      const halves = ticks.flatMap((tick) => [tick, 1.5 * tick]).concat(ticks.length ? ticks[0] * 0.75 : []);
      const within = halves.filter((tick) => tick >= low && tick <= high);
      if (within.length >= 4) return within;
      const step = niceStep((high - low) / 6);
      return range(Math.ceil(low / step) * step, high, step);
    }
    const step = niceStep((high - low) / 5);
    return range(Math.ceil(low / step - 1e-9) * step, high, step);
  };
  const niceStep = (rough) => {
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough - 1e-12);
  };
  const range = (from, to, step) => {
    const found = [];
    for (let value = from; value <= to + step * 1e-6; value += step) found.push(Number(value.toPrecision(10)));
    return found;
  };
  // Drawn at the width there is, so that letters keep their size on a phone.
  function chart(host, { series, label, x, y, xLog = false, yLog = false, line = null, xTicks = null, height = 300 }) {
    const width = Math.max(280, Math.min(host.clientWidth || 600, 680));
    const box = { left: 60, right: 12, top: 12, bottom: 44 };
    const points = series.flatMap((one) => one.points).filter(([, value]) => known(value) && (!yLog || value > 0));
    if (!points.length) { host.replaceChildren(make("p", { class: "faint" }, "Nothing to draw.")); return; }
    const xs = points.map((point) => point[0]);
    const ys = points.flatMap(([, value, low, high]) => [value, low, high].filter((each) => known(each) && (!yLog || each > 0)));
    if (line !== null) ys.push(line);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; if (xLog) [x0, x1] = [x1 / 2, x1 * 2]; }
    if (yLog) { y0 /= 1.15; y1 *= 1.15; } else { const pad = (y1 - y0 || 1) * 0.06; y0 -= pad; y1 += pad; }
    const scale = (value, low, high, from, to, log) => from + (to - from) * (log ? Math.log(value / low) / Math.log(high / low)
      : (value - low) / (high - low));
    const X = (value) => scale(value, x0, x1, box.left, width - box.right, xLog);
    const Y = (value) => scale(value, y0, y1, height - box.bottom, box.top, yLog);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    for (const value of ticksOf(y0, y1, yLog)) {
      svg.append(draw("line", { class: "grid", x1: box.left, x2: width - box.right, y1: Y(value), y2: Y(value) }));
      svg.append(draw("text", { x: box.left - 6, y: Y(value) + 4, "text-anchor": "end" }, number(value)));
    }
    const marks = xTicks || ticksOf(x0, x1, xLog).map((value) => [value, number(value)]);
    const every = Math.ceil(marks.length / Math.max(2, (width - box.left) / 38));
    marks.forEach(([value, text], at) => {
      if (value < x0 - 1e-9 || value > x1 + 1e-9 || at % every) return;
      svg.append(draw("text", { x: X(value), y: height - box.bottom + 17, "text-anchor": "middle" }, text));
    });
    svg.append(draw("line", { class: "axis", x1: box.left, x2: width - box.right, y1: height - box.bottom, y2: height - box.bottom }));
    svg.append(draw("text", { x: (box.left + width - box.right) / 2, y: height - 6, "text-anchor": "middle" }, x));
    svg.append(draw("text", { x: 0, y: 0, "text-anchor": "middle",
      transform: `translate(12 ${(box.top + height - box.bottom) / 2}) rotate(-90)` }, y));
    if (line !== null) svg.append(draw("line", { class: "one", x1: box.left, x2: width - box.right, y1: Y(line), y2: Y(line) }));
    for (const one of series) {
      const drawn = one.points.filter(([, value]) => known(value) && (!yLog || value > 0));
      const banded = drawn.filter(([, , low, high]) => known(low) && known(high) && (!yLog || low > 0));
      if (banded.length > 1) svg.append(draw("path", { class: `band ${one.kind}`, d: "M" + [
        ...banded.map(([at, , low]) => `${X(at).toFixed(1)} ${Y(low).toFixed(1)}`),
        ...banded.reverse().map(([at, , , high]) => `${X(at).toFixed(1)} ${Y(high).toFixed(1)}`)].join("L") + "Z" }));
      svg.append(draw("path", { class: `line ${one.kind} ${one.model}`,
        d: "M" + drawn.map(([at, value]) => `${X(at).toFixed(1)} ${Y(value).toFixed(1)}`).join("L") }));
      if (drawn.length <= 80) for (const [at, value] of drawn) {
        // Round for same topic, square for cross topic: colours are not all that tells them apart.
        const hollow = one.model === "trained" ? "" : " hollow";
        const mark = one.kind === "same_topic" ? draw("circle", { class: `dot ${one.kind}${hollow}`, cx: X(at), cy: Y(value), r: 3 })
          : draw("rect", { class: `dot ${one.kind}${hollow}`, x: X(at) - 2.8, y: Y(value) - 2.8, width: 5.6, height: 5.6 });
        mark.append(draw("title", {}, `${one.name}, ${x} ${number(at)}: ${number(value)}`));
        svg.append(mark);
      }
    }
    host.replaceChildren(svg, legend(series));
  }
  function legend(series) {
    const list = make("ul", { class: "legend" });
    for (const one of series) {
      const svg = draw("svg", { viewBox: "0 0 36 12", "aria-hidden": "true" });
      const hollow = one.model === "trained" ? "" : " hollow";
      svg.append(draw("path", { class: `line ${one.kind} ${one.model}`, d: "M0 6L36 6" }));
      svg.append(one.kind === "same_topic" ? draw("circle", { class: `dot ${one.kind}${hollow}`, cx: 18, cy: 6, r: 4 })
        : draw("rect", { class: `dot ${one.kind}${hollow}`, x: 14.5, y: 2.5, width: 7, height: 7 }));
      const item = make("li", {}, one.name);
      item.prepend(svg);
      list.append(item);
    }
    return list;
  }
  function forest(host) {
    const table = D.tables.headline;
    const at = (row, name) => row[table.columns.indexOf(name)];
    const rows = table.rows.filter((row) => known(at(row, "ratio")));
    if (!rows.length) return;
    const width = Math.max(280, Math.min(host.clientWidth || 600, 680)), step = 26, top = 8;
    const side = width < 440 ? 126 : 150;
    const estimators = [...new Set(rows.map((row) => at(row, "estimator")))];
    const height = top + rows.length * step + estimators.length * 6 + 44;
    const ends = rows.flatMap((row) => [at(row, "ratio_low"), at(row, "ratio"), at(row, "ratio_high")]).filter((value) => known(value) && value > 0);
    const [low, high] = [Math.min(1, ...ends) / 1.05, Math.max(1, ...ends) * 1.05];
    const X = (value) => side + (width - side - 14) * Math.log(value / low) / Math.log(high / low);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": "Ratio of same-topic to cross-topic attention by every estimator, with intervals; the table beside it has the numbers" });
    for (const value of ticksOf(low, high, true)) {
      svg.append(draw("line", { class: "grid", x1: X(value), x2: X(value), y1: top, y2: height - 40 }));
      svg.append(draw("text", { x: X(value), y: height - 24, "text-anchor": "middle" }, number(value)));
    }
    svg.append(draw("line", { class: "one", x1: X(1), x2: X(1), y1: top, y2: height - 40 }));
    let y = top;
    for (const estimator of estimators) {
      y += 6;
      for (const row of rows.filter((one) => at(one, "estimator") === estimator)) {
        const twin = at(row, "model") !== D.models[0], middle = y + step / 2;
        if (!twin) svg.append(draw("text", { x: side - 10, y: middle + 4, "text-anchor": "end" }, words(estimator)));
        const [from, to] = [at(row, "ratio_low"), at(row, "ratio_high")];
        if (known(from) && known(to) && from > 0) svg.append(draw("line", { class: `ends ${twin ? "twin" : "model"}`, x1: X(from), x2: X(to), y1: middle, y2: middle }));
        const mark = twin ? draw("rect", { class: "model hollow", x: X(at(row, "ratio")) - 4.5, y: middle - 4.5, width: 9, height: 9 })
          : draw("circle", { class: "model", cx: X(at(row, "ratio")), cy: middle, r: 5.5 });
        mark.append(draw("title", {}, `${at(row, "model")}, ${words(estimator)}: ${number(at(row, "ratio"), 4)}, ${number(from, 4)} to ${number(to, 4)}`));
        svg.append(mark);
        y += step;
      }
    }
    svg.append(draw("text", { x: width / 2 + (width < 480 ? 0 : side / 2), y: height - 5, "text-anchor": "middle" }, "same topic / cross topic (1: no difference)"));
    host.replaceChildren(svg);
  }
  function layers(host) {
    const table = D.tables.contextual;
    if (!table) return;
    const at = (row, name) => row[table.columns.indexOf(name)];
    const measure = $("measure").value, estimator = $("context-estimator").value;
    const chosen = table.rows.filter((row) => at(row, "measure") === measure && at(row, "estimator") === estimator);
    const series = [];
    for (const model of D.models) for (const kind of ["same_topic", "cross_topic"]) {
      const points = chosen.filter((row) => at(row, "model") === model && at(row, "pair_class") === kind)
        .map((row) => [at(row, "layer"), at(row, "mean"), at(row, "low"), at(row, "high")]);
      if (points.length) series.push({ name: `${words(kind)}, ${model}`, kind, model, points });
    }
    const numbers = [...new Set(chosen.map((row) => at(row, "layer")))].sort((one, other) => one - other);
    chart(host, { series, x: "after layer", y: `mean ${words(measure)}`, line: measure === "dot" ? null : 0,
      xTicks: numbers.map((layer) => [layer, layer < 0 ? "embed" : String(layer)]),
      label: `${words(measure)} of words in context, layer by layer, ${words(estimator)}; the table below it can be saved as CSV` });
  }

  // ---- the map of heads
  const cells = [];
  for (const node of document.querySelectorAll(".map td[data-r]")) cells[Number(node.dataset.r)] = node;
  const shade = (ratio, end = D.limit) => {
    if (!known(ratio)) return "kx";
    if (ratio <= 0) return `k-${SHADES}`;
    const place = Math.log2(ratio) / Math.log2(end) * SHADES;
    const whole = Math.floor(Math.abs(place) + 0.5) * (place >= 0 ? 1 : -1);
    return `k${Math.max(-SHADES, Math.min(SHADES, whole)) || 0}`;
  };
  const current = () => ({ model: $("weights").value, estimator: $("estimator").value });
  const valuesOf = (model, estimator) => (D.values[model] || {})[estimator] || {};
  const valueOf = (model, estimator, name, row) => (valuesOf(model, estimator)[name] || [])[row];
  const nameOf = (row) => `${D.heads.stack[row] ? words(D.heads.stack[row]) + " " : ""}layer ${D.heads.layer[row]}, head ${D.heads.head[row]}`;
  const interval = (low, high) => known(low) && known(high) ? `${mean(low)} to ${mean(high)}` : "no interval";
  function say(row) {
    const { model, estimator } = current();
    const value = (name) => valueOf(model, estimator, name, row);
    const lines = [`${nameOf(row)}: ratio ${number(value("ratio"))}`];
    if (known(value("ratio_low"))) lines[0] += ` (${interval(value("ratio_low"), value("ratio_high"))})`;
    if (known(value("same_topic"))) lines.push(`same topic ${number(value("same_topic"))}, cross topic ${number(value("cross_topic"))}`);
    if (known(value("q_value"))) lines.push(`q ${chance(value("q_value"))}`);
    return lines.join("\n");
  }
  function colour() {
    const { model, estimator } = current();
    const ratios = valuesOf(model, estimator).ratio;
    cells.forEach((node, row) => {
      const ratio = ratios ? ratios[row] : null;
      node.className = shade(ratio);
      node.textContent = known(ratio) ? ratio.toFixed(2) : "none";
      node.setAttribute("aria-label", say(row).replaceAll("\n", "; ")); // a name of now, also where the focus has been
    });
    $("map-note").textContent = ratios ? "" : "This page does not hold these numbers: see the note below.";
    strongest();
  }
  function strongest() {
    const { model, estimator } = current();
    const ratios = valuesOf(model, estimator).ratio || [];
    const value = (name, row) => valueOf(model, estimator, name, row);
    const lows = valuesOf(model, estimator).ratio_low || [], sure = lows.some(known); // as surest_first of the pictures
    const rank = (row) => sure ? (known(lows[row]) ? lows[row] : -1) : 0;
    const order = rowsOfHeads.filter((row) => known(ratios[row]))
      .sort((one, other) => rank(other) - rank(one) || ratios[other] - ratios[one]).slice(0, 12);
    $("strongest").replaceChildren(...order.map((row) => {
      const open = make("button", { type: "button", "aria-label": `open ${nameOf(row)}` }, nameOf(row));
      open.addEventListener("click", () => show(row));
      return make("tr", {}, make("th", { scope: "row" }, open), make("td", { class: "n" }, mean(ratios[row])),
        make("td", { class: "n" }, interval(value("ratio_low", row), value("ratio_high", row))),
        make("td", { class: "n" }, mean(value("same_topic", row))), make("td", { class: "n" }, mean(value("cross_topic", row))),
        make("td", { class: "n" }, chance(value("q_value", row))), make("td", { class: "n" }, percent(D.plain[model].sink_mass[row])));
    }));
    $("strongest-caption").textContent = `Heads ${sure ? "most surely above 1" : "with the largest ratios"}, ${model}, ${words(estimator)}`;
  }
  const tip = $("tip");
  const showTip = (node, text) => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = "0px"; // its width is measured where nothing presses on it
    const box = node.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(box.left, innerWidth - own.width - 6))}px`;
    tip.style.top = `${box.top > own.height + 12 ? box.top - own.height - 6 : box.bottom + 6}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const map of document.querySelectorAll(".map")) {
    const inside = (event) => event.target.closest("td[data-r]");
    map.addEventListener("mouseover", (event) => { const node = inside(event); if (node) showTip(node, say(Number(node.dataset.r))); });
    map.addEventListener("mouseleave", hideTip);
    map.addEventListener("focusin", (event) => {
      const node = inside(event);
      if (node) showTip(node, say(Number(node.dataset.r)));
    });
    map.addEventListener("focusout", hideTip);
    map.addEventListener("click", (event) => { const node = inside(event); if (node) { turnTo(map, node); show(Number(node.dataset.r)); } });
    map.addEventListener("keydown", (event) => {
      const node = inside(event);
      if (!node) return;
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(Number(node.dataset.r)); return; }
      const line = [...node.parentElement.querySelectorAll("td")], column = line.indexOf(node);
      const lines = [...map.tBodies[0].rows], at = lines.indexOf(node.parentElement);
      const moves = { ArrowLeft: [at, column - 1], ArrowRight: [at, column + 1], ArrowUp: [at - 1, column], ArrowDown: [at + 1, column],
        Home: [at, 0], End: [at, line.length - 1], PageUp: [0, column], PageDown: [lines.length - 1, column] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const next = lines[move[0]] && lines[move[0]].querySelectorAll("td")[move[1]];
      if (next && next.dataset.r !== undefined) turnTo(map, next);
    });
  }
  // One cell of a map is in the order of Tab; arrows go to the others.
  function turnTo(map, node) {
    for (const other of map.querySelectorAll('td[tabindex="0"]')) other.setAttribute("tabindex", "-1");
    node.setAttribute("tabindex", "0");
    node.focus();
  }
  $("estimator").addEventListener("change", colour);
  $("weights").addEventListener("change", colour);

  // ---- one head
  const dialog = $("head"), body = $("head-body");
  const saver = (name, columns, rows, text = "Save as CSV") => {
    const button = make("button", { type: "button", class: "save" }, text);
    button.addEventListener("click", () => save(name, columns(), rows()));
    return button;
  };
  let redraw = () => {};
  function show(row) {
    hideTip();
    $("head-title").textContent = nameOf(row)[0].toUpperCase() + nameOf(row).slice(1);
    body.replaceChildren(numbersOf(row), ...curveOf(row), ...matrixOf(row), ...passagesOf(row));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    redraw();
  }
  $("head-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { redraw = () => {}; hideTip(); });

  function numbersOf(row) {
    const head = ["weights", "pairs compared", "ratio", "95 % interval", "same topic", "cross topic", "p", "q"];
    const lines = [];
    for (const model of D.models) for (const estimator of D.estimators) {
      if (!(D.values[model] || {})[estimator]) continue;
      const value = (name) => valueOf(model, estimator, name, row);
      lines.push([model, words(estimator), mean(value("ratio")), interval(value("ratio_low"), value("ratio_high")),
        mean(value("same_topic")), mean(value("cross_topic")), chance(value("p_value")), chance(value("q_value"))]);
    }
    const table = make("table", { class: "data" }, make("caption", {}, "Its numbers (uniform = 1)"),
      make("thead", {}, make("tr", {}, ...head.map((text, at) => make("th", { scope: "col", class: at > 1 ? "n" : null }, text)))),
      make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((text, at) => at ? make("td", { class: at > 1 ? "n" : null }, text)
        : make("th", { scope: "row" }, text))))));
    const plain = D.models.map((model) => `${model}: same word ${number(D.plain[model].same_token[row])}, unlabelled words `
      + `${number(D.plain[model].no_topic[row])}; ${percent(D.plain[model].sink_mass[row])} of attention goes to special tokens`);
    return make("div", {}, make("div", { class: "scroll" }, table), ...plain.map((text) => make("p", { class: "faint" }, text + ".")));
  }
  // Single distances rest on few pairs each: those of one third of a doubling are drawn as one, weighted by pairs.
  function inThirds(bucket, means) {
    const groups = new Map();
    means.forEach((value, at) => {
      if (!known(value) || bucket.distance[at] <= 0) return;
      const key = Math.floor(3 * Math.log2(bucket.distance[at]) + 0.5), pairs = bucket.n_pairs[at];
      const sum = groups.get(key) || [0, 0, 0];
      groups.set(key, [sum[0] + pairs, sum[1] + pairs * Math.log(bucket.distance[at]), sum[2] + pairs * value]);
    });
    return [...groups.entries()].sort((one, other) => one[0] - other[0]).map(([, [pairs, log, sum]]) => [Math.exp(log / pairs), sum / pairs]);
  }
  function curveOf(row) {
    const title = make("h3", {}, "Attention against distance");
    const of = D.curves.heads[row];
    if (!of) return [title, make("p", { class: "faint" }, "This page does not hold it: see the note below the map.")];
    const series = [];
    for (const model of D.models) for (const kind of ["same_topic", "cross_topic"]) if (of[model] && of[model][kind])
      series.push({ name: `${words(kind)}, ${model}`, kind, model, points: inThirds(bucketsOf(model, row)[kind], of[model][kind]) });
    const host = make("div", {});
    redraw = () => chart(host, { series, x: "distance between the words (tokens)", y: "mean attention (uniform = 1)", xLog: true, yLog: true,
      line: 1, label: "Attention against distance, same topic and cross topic; the table can be saved as CSV" });
    return [title, make("p", { class: "faint" },
      "Where both lines lie on each other, a ratio above 1 comes from distance alone. Distances are grouped, three to a doubling; "
      + "the CSV file has each one."), make("figure", {}, host),
      saver(`distance_${where(row).join("_")}`, () => curvesTable(row)[0], () => curvesTable(row)[1])];
  }
  const topicName = (topic) => D.topic_words[topic] ? `topic ${topic} (${D.topic_words[topic].split(" ").slice(0, 4).join(" ")})` : `topic ${topic}`;
  function matrixOf(row) {
    const title = make("h3", {}, "From topic to topic");
    const flat = (D.matrices.heads || {})[row], topics = D.matrices.topics;
    if (!flat) return D.matrices.topics ? [title, make("p", { class: "faint" }, "This page does not hold it: see the note below the map.")] : [];
    const n = topics.length, end = D.matrices.limit;
    const table = make("table", { class: "matrix" },
      make("caption", { class: "hidden" }, "Mean attention from the topic of the query (rows) to the topic of the key (columns), uniform = 1"),
      make("thead", {}, make("tr", {}, make("td", {}), ...topics.map((topic) => make("th", { scope: "col" }, String(topic))))),
      make("tbody", {}, ...topics.map((topic, at) => make("tr", {}, make("th", { scope: "row" }, String(topic)),
        ...topics.map((other, to) => make("td", { class: shade(flat[at * n + to], end), "data-at": `${at},${to}` }, known(flat[at * n + to]) ? number(flat[at * n + to]) : "none"))))));
    table.addEventListener("mouseover", (event) => {
      const node = event.target.closest("td[data-at]");
      if (!node) { hideTip(); return; }
      const [at, to] = node.dataset.at.split(",").map(Number);
      showTip(node, `from ${topicName(topics[at])}\nto ${topicName(topics[to])}: ${number(flat[at * n + to])}`);
    });
    table.addEventListener("mouseleave", hideTip);
    const columns = () => ["query_topic", "key_topic", "mean"];
    const rows = () => topics.flatMap((topic, at) => topics.map((other, to) => [topic, other, flat[at * n + to]]));
    return [title, make("p", { class: "faint" }, "Rows are topics of the word that attends, columns of the word attended to; the diagonal is "
      + `the same topic. Blue is below uniform attention, red above; colours end at ${number(1 / end)} and ${number(end)}. Hatched: no pair of words. `
      + "A single cell may rest on a handful of pairs."), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "From topic to topic" }, table),
      saver(`topics_${where(row).join("_")}`, columns, rows)];
  }

  // ---- passages
  const TOPIC_COLOURS = 8;
  function passagesOf(row) {
    const found = D.passages.filter((passage) => passage.heads[row]);
    if (!found.length) return [];
    return [make("h3", {}, "Example passages"), make("p", { class: "faint" },
      "Choose a word (click, or Tab and arrows): others are shaded by the attention that it pays to them, the darker the more. The line below a word "
      + "and its small number are its topic."), ...found.map((passage) => passageOf(passage, row))];
  }
  function passageOf(passage, row) {
    const n = passage.words.length, flat = passage.heads[row];
    const often = new Map();
    for (const topics of passage.topics) for (const topic of topics) often.set(topic, (often.get(topic) || 0) + 1);
    const order = [...often.keys()].sort((one, other) => often.get(other) - often.get(one) || one - other);
    const inkOf = (topic) => order.indexOf(topic) < TOPIC_COLOURS ? `var(--t${order.indexOf(topic)})` : "var(--faint)";
    const seen = flat.filter((value) => known(value)).sort((one, other) => one - other);
    const most = Math.max(2, seen[Math.floor(seen.length * 0.98)] || 2);
    const text = make("div", { class: "passage", role: "group", "aria-label": `Words of ${passage.title}` });
    const said = make("p", { class: "faint", "aria-live": "polite" });
    const nodes = passage.words.map((word, at) => {
      const topics = passage.topics[at];
      const node = make("button", { type: "button", class: "w", tabindex: "-1", "aria-pressed": "false" }, word);
      if (topics.length) {
        node.append(make("sup", { "aria-hidden": "true" }, topics.join(",")), make("span", { class: "hidden" }, ` (topic ${topics.join(", ")})`));
        node.style.borderBottomColor = inkOf(topics[0]);
      }
      return node;
    });
    function choose(at, focus) {
      const line = flat.slice(at * n, at * n + n);
      nodes.forEach((node, key) => {
        node.setAttribute("aria-pressed", String(key === at));
        node.setAttribute("tabindex", key === at ? "0" : "-1");
        const share = known(line[key]) ? Math.min(1, line[key] / most) : 0;
        node.style.backgroundColor = share > 0.04 ? `color-mix(in srgb, var(--glow) ${Math.round(share * 100)}%, transparent)` : "";
        node.title = known(line[key]) ? `${number(line[key])} times uniform` : "not seen";
      });
      const best = [...line.keys()].filter((key) => known(line[key]) && key !== at).sort((one, other) => line[other] - line[one]).slice(0, 3);
      said.textContent = best.length ? `From "${passage.words[at]}" most attention to: ` + best.map((key) => `"${passage.words[key]}" ${number(line[key])}`).join(", ")
        + ` (uniform = 1, darkest from ${number(most)}).` : `"${passage.words[at]}" attends to none of the other words.`;
      if (focus) nodes[at].focus();
    }
    nodes.forEach((node, at) => {
      node.addEventListener("click", () => choose(at, false));
      node.addEventListener("keydown", (event) => {
        const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: n - 1 }[event.key];
        if (to === undefined || to < 0 || to >= n) return;
        event.preventDefault();
        choose(to, true);
      });
      text.append(passage.gaps[at], node);
    });
    text.append(passage.gaps[n]);
    const keyed = make("ul", { class: "legend" }, ...order.slice(0, TOPIC_COLOURS).map((topic) => {
      const ink = make("span", { class: "ink", "aria-hidden": "true" });
      ink.style.borderBottomColor = inkOf(topic);
      return make("li", {}, ink, topicName(topic));
    }), order.length > TOPIC_COLOURS ? make("li", {}, `and ${order.length - TOPIC_COLOURS} more topics, by number`) : null);
    const first = passage.topics.findIndex((topics) => topics.length && often.get(topics[0]) > 1);
    choose(first < 0 ? Math.max(0, passage.topics.findIndex((topics) => topics.length)) : first, false);
    return make("div", {}, make("h4", {}, passage.title), text, said, keyed);
  }

  function drawAll() {
    if ($("forest")) forest($("forest"));
    if ($("layers")) layers($("layers"));
    redraw();
  }
  for (const id of ["measure", "context-estimator"]) if ($(id)) $(id).addEventListener("change", drawAll);
  let waiting = 0, width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; clearTimeout(waiting); waiting = setTimeout(drawAll, 120); } });
  colour();
  drawAll();
  document.documentElement.dataset.ready = "yes";
})();
