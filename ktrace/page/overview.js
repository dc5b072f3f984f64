"use strict";
// The page of an overview. `ask` has the answers: the server's, or those that the file itself holds (overview.html).
const $ = (id) => document.getElementById(id);
const LANES = 40;
const MANY = 8, LINES = 100, HIGH = 320; // groups of a kind that are listed, lines of the map of more devices, its pixels
const listed = { device: null, process: null }; // the numbers of the groups that are listed, null for all
let about, view, brush = null, rows = [], level = null, names = {}, marks = new Map(), asked = 0;

// ---- figures as text
const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
function time(ns) {
  const [factor, unit] = units.find(([one]) => Math.abs(ns) >= one) ?? units[3];
  return `${(ns / factor).toFixed(factor === 1 ? 0 : 3)} ${unit}`;
}
const count = (n) => n.toLocaleString("en-US");
const share = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : "");
function element(name, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// ---- answers
const served = {
  about: () => fetched("about"),
  level: (from, to, shift, lanes) => fetched("level", { from, to, shift, ...(lanes.length < 1000 ? { lanes } : {}) }),
  heavy: (from, to) => fetched("heavy", { from, to }),
  idle: (from, to) => fetched("idle", { from, to }),
  found: (words) => fetched("found", { words }),
  async window(from, to, budget) {
    const answer = await fetch(`window?${new URLSearchParams({ from, to, ...(budget ? { budget } : {}) })}`);
    if (!answer.ok) throw new Error("there is nothing in this part, or ktrace is no longer running");
    return answer.arrayBuffer();
  },
};
async function fetched(what, parameters = {}) {
  const answer = await fetch(`${what}?${new URLSearchParams(parameters)}`);
  if (!answer.ok) throw new Error(`ktrace doesn't respond: is it still running?`);
  return answer.json();
}
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}
function widened([bucket, low, high], wide) {
  const found = [[], [], []];
  bucket.forEach((one, at) => {
    const place = Math.floor(one / wide), last = found[0].length - 1;
    if (found[0][last] === place) {
      found[1][last] = Math.min(found[1][last], low[at]);
      found[2][last] = Math.max(found[2][last], high[at]);
    } else [place, low[at], high[at]].forEach((value, to) => found[to].push(value));
  });
  return found;
}
function inFile(data) {
  // Sums of lanes, buckets and names; a selection is taken to whole buckets.
  const { cells, names: all } = data, [lane, bucket, name, own, begun] = cells, base = data.about.shift;
  const part = (from, to) => [Math.floor(from / 2 ** base), Math.ceil(to / 2 ** base)];
  const used = (numbers) => Object.fromEntries([...numbers].map((one) => [one, all[one]]));
  const first = new Map(), alike = {}; // names that are shown alike, by short name and operation, are one
  for (const [one, [short, operation]] of Object.entries(all)) {
    const label = JSON.stringify([short, operation]);
    if (!first.has(label)) first.set(label, Number(one));
    alike[one] = first.get(label);
  }
  return {
    about: () => data.about,
    level(from, to, shift) {
      shift = Math.max(shift, base);
      const [first, last] = part(from, to), lanes = {}, shown = new Set();
      const wide = 2 ** (shift - base);
      let row = null, best = 0, sums = null;
      const end = () => {
        if (row === null) return;
        let heavy = -1, most = [-1, -1];
        for (const [one, [ns, n]] of sums) if (ns > most[0] || (ns === most[0] && n > most[1])) [heavy, most] = [one, [ns, n]];
        let ns = 0, n = 0;
        for (const [a, b] of sums.values()) { ns += a; n += b; }
        const own = lanes[row[0]] ??= [[], [], [], []];
        [row[1], ns, n, heavy].forEach((value, at) => own[at].push(value));
        shown.add(heavy);
      };
      for (let at = 0; at < lane.length; at++) {
        if (bucket[at] < first || bucket[at] >= last) continue;
        const place = Math.floor(bucket[at] / wide);
        if (row === null || row[0] !== lane[at] || row[1] !== place) { end(); row = [lane[at], place]; sums = new Map(); }
        const sum = sums.get(name[at]) ?? [0, 0];
        sums.set(name[at], [sum[0] + own[at], sum[1] + begun[at]]);
      }
      end();
      return { shift, lanes, names: used(shown), counters: Object.fromEntries(Object.entries(data.counters).map(([one, readings]) => [one, widened(readings, wide)])) };
    },
    heavy(from, to) {
      const [first, last] = part(from, to), sums = { device: new Map(), host: new Map(), ranges: new Map() }, busy = {};
      let slices = 0;
      for (let at = 0; at < lane.length; at++) {
        if (bucket[at] < first || bucket[at] >= last) continue;
        busy[lane[at]] = (busy[lane[at]] ?? 0) + own[at];
        const table = sums[data.tables[lane[at]]];
        if (data.tables[lane[at]] !== "") slices += begun[at];
        if (!table) continue;
        const sum = table.get(alike[name[at]]) ?? [0, 0];
        table.set(alike[name[at]], [sum[0] + own[at], sum[1] + begun[at]]);
      }
      const totals = Object.fromEntries(Object.entries(sums).map(([title, table]) => [title, [...table.values()].reduce((all, [ns]) => all + ns, 0)]));
      const heaviest = (table) => [...table].map(([one, sum]) => [one, ...sum]).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 40);
      const [device, host, ranges] = [heaviest(sums.device), heaviest(sums.host), heaviest(sums.ranges)];
      const devices = data.about.groups.filter((one) => one.lane !== null).map((one) => ({ name: one.name, busy: busy[one.lane] ?? 0 }));
      const length = Math.min(last * 2 ** base, data.about.length) - first * 2 ** base;
      return { length, slices, devices, device, host, ranges, totals, names: used([...device, ...host, ...ranges].map((row) => row[0])) };
    },
    idle: (from, to) => ({ causes: from <= 0 && to >= data.about.length ? data.idle : null }),
    found(words) {
      const small = words.toLowerCase(), is = new Set(Object.keys(all).filter((one) => all[one][2].toLowerCase().includes(small)).map(Number));
      const lanes = new Map();
      for (let at = 0; at < lane.length; at++) if (is.has(name[at]) && data.tables[lane[at]] !== "") (lanes.get(lane[at]) ?? lanes.set(lane[at], []).get(lane[at])).push(bucket[at]);
      return [...lanes].map(([one, buckets]) => ({ lane: one, buckets, shift: base }));
    },
    window: () => unpacked($("trace").textContent).arrayBuffer(),
  };
}

// ---- lanes
const kindOf = (group) => (group.lane === null ? "process" : "device");
const ofKind = (kind) => about.groups.map((group, number) => ({ ...group, number })).filter((group) => kindOf(group) === kind);
const firstWaited = (a, b) => a.communication - b.communication || a.busy - b.busy;
function fold() {
  // Of many devices those are listed that communicate least, as one does that the others wait for; else the least busy.
  for (const kind of ["device", "process"]) {
    const groups = ofKind(kind);
    if (groups.length > MANY) listed[kind] = new Set(groups.sort(kind === "device" ? firstWaited : () => 0).slice(0, MANY).map((one) => one.number));
  }
}
function lines() {
  // The lines of the map; where a line is several devices it shows the one that communicates least.
  const devices = ofKind("device"), each = Math.ceil(devices.length / LINES), found = [];
  for (let at = 0; at < devices.length; at += each) found.push(devices.slice(at, at + each).sort(firstWaited)[0]);
  return found;
}
function more(kind) {
  const groups = ofKind(kind), hidden = groups.length - listed[kind].size, button = element("button", { textContent: `${count(hidden)} more` });
  button.onclick = () => { listed[kind] = null; lay(); load(); };
  const sends = groups.some((one) => one.communication > 0);
  const which = kind === "process" ? "processes" : `GPUs; listed are those that ${sends ? "communicate least: others may wait for them" : "are the least busy"}`;
  return element("div", { className: "lane group bare" }, element("div", { className: "name" }, button, ` ${which}`));
}
function lay() {
  const box = $("lanes");
  const open = new Set(rows.filter((row) => row.open).map((row) => row.key));
  const first = !rows.length;
  rows = [];
  const shown = ["device", "process"].flatMap((kind) => [...(listed[kind] ?? ofKind(kind).map((one) => one.number))]);
  let room = listed.device ? 0 : LANES - shown.length - about.rulers.length;
  for (const one of about.rulers) rows.push({ ...one, key: `ruler ${one.lane}`, ruler: true });
  const devices = ofKind("device");
  if (devices.length > MANY) rows.push({ name: `${count(devices.length)} GPUs, ${devices.length > LINES ? "several" : "one"} a line`, lane: null, key: "map", map: lines() });
  shown.forEach((number) => {
    const group = about.groups[number], key = `group ${number}`, fits = group.lanes.length <= Math.max(room, 2);
    const isOpen = first ? fits : open.has(key);
    if (isOpen) room -= group.lanes.length;
    rows.push({ name: group.name, lane: group.lane, key, group: true, open: isOpen, inside: group.lanes.length, kind: kindOf(group) });
    if (isOpen) for (const lane of group.lanes) rows.push({ ...lane, key: `lane ${lane.lane}`, inner: true });
  });
  if (about.counters.length) {
    const fits = about.counters.length <= Math.max(room, 4), isOpen = first ? fits : open.has("counters");
    rows.push({ name: "counters", lane: null, key: "counters", group: true, open: isOpen, inside: about.counters.length });
    if (isOpen) for (const one of about.counters) rows.push({ ...one, key: `counter ${one.series}`, inner: true });
  }
  const made = rows.map((row) => {
    const name = element("div", { className: "name", title: row.name });
    if (row.group) {
      const button = element("button", { textContent: row.open ? "▾" : "▸" });
      button.setAttribute("aria-expanded", row.open);
      button.setAttribute("aria-label", `lanes of ${row.name}`);
      button.onclick = () => { row.open = !row.open; lay(); load(); };
      name.append(button);
    }
    name.append(row.group && !row.open ? `${row.name} (${count(row.inside)})` : row.name);
    row.canvas = element("canvas");
    const line = element("div", { className: `lane ${row.group ? "group" : ""} ${row.inner ? "inner" : ""} ${row.ruler ? "ruler" : ""}` }, name, row.canvas);
    if (row.group && row.lane === null) { row.canvas.hidden = true; line.classList.add("bare"); }
    if (row.map) { line.classList.add("map"); row.canvas.style.height = `${Math.min(12, Math.max(3, Math.floor(HIGH / row.map.length))) * row.map.length}px`; }
    return line;
  });
  for (const kind of ["process", "device"]) {
    const last = rows.findLastIndex((row) => row.kind === kind), next = rows.findIndex((row, at) => at > last && !row.inner);
    if (listed[kind]) made.splice(next < 0 ? made.length : next, 0, more(kind));
  }
  const axis = element("div", { className: "axis" }, element("div", { className: "name" }), element("canvas", { id: "axis" }));
  box.replaceChildren(axis, ...made, element("div", { id: "brush", hidden: true }));
}
function sized(canvas) {
  const ratio = devicePixelRatio || 1, width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return context;
}
function cellsOf(lane) {
  // The buckets of a lane and how wide they are; a file has narrower ones of whole devices.
  const fine = about.fine?.lanes[lane], isFiner = fine && about.fine.shift < (level?.shift ?? 0);
  return isFiner ? [fine, 2 ** about.fine.shift] : [level?.lanes[lane], 2 ** (level?.shift ?? 0)];
}
const place = (at, width) => (at - view[0]) / (view[1] - view[0]) * width;
function draw() {
  const colours = Object.fromEntries(Object.values(about.colours).map((name) => [name, colour(name)]));
  const rest = colour("rest"), mark = colour("mark"), ink = colour("ink");
  for (const row of rows) {
    if (row.canvas.hidden) continue;
    const context = sized(row.canvas), width = row.canvas.clientWidth, height = row.canvas.clientHeight;
    if (level?.counters[row.series]) envelope(context, level.counters[row.series], width, height, colour("k2"));
    if (row.map) heat(context, row.map, width, height);
    const [own, wide] = cellsOf(row.lane);
    if (own) bars(context, own, wide, width, height, (name) => colours[about.colours[names[name]?.[1]]] ?? rest, row);
    const found = marks.get(row.lane);
    if (found) {
      context.fillStyle = mark;
      for (const at of found.buckets) {
        const x = place(at * 2 ** found.shift, width);
        if (x > -3 && x < width) context.fillRect(x, 0, Math.max(2, 2 ** found.shift / (view[1] - view[0]) * width), 3);
      }
    }
  }
  axis(ink);
  shade();
}
function bars(context, own, wide, width, height, fill, row) {
  const [bucket, busy, , name] = own;
  const pixels = wide / (view[1] - view[0]) * width;
  const ratio = devicePixelRatio || 1, edge = colour("soft"), inks = [colour("ground"), colour("ink")];
  let label = null;
  const labels = [];
  for (let at = 0; at < bucket.length; at++) {
    const x = place(bucket[at] * wide, width);
    if (x + pixels < 0 || x > width) continue;
    const part = Math.min(busy[at] / wide, 1);
    if (part > 0 && !row.ruler) {
      const tall = Math.max(1, Math.round(height * part));
      context.fillStyle = fill(name[at]);
      const left = Math.round(x * ratio) / ratio, right = Math.max(Math.round((x + pixels) * ratio), Math.round(x * ratio) + 1) / ratio;
      context.fillRect(left, height - tall, right - left, tall);
    }
    if (label && label.name === name[at] && x - label.end < 2 + pixels) label.end = x + pixels;
    else { label = { name: name[at], x, end: x + pixels }; labels.push(label); }
  }
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const one of labels) {
    if (row.ruler) {
      context.fillStyle = fill(one.name);
      context.globalAlpha = 0.45;
      context.fillRect(one.x, 0, Math.max(one.end - one.x, 1), height);
      context.globalAlpha = 1;
      context.fillStyle = edge;
      if (one.end - one.x > 4) context.fillRect(one.x, 0, 1, height);
    }
    const from = Math.max(one.x, 0), room = Math.min(one.end, width) - from - 6, text = names[one.name]?.[0] ?? "";
    if (room < 26 || (!row.ruler && pixels < 6)) continue;
    const shown = clipped(context, text, room);
    if (!shown) continue;
    context.fillStyle = inks[row.ruler ? 1 : 0];
    context.fillText(shown, from + 3, height / 2 + 1);
  }
}
function heat(context, devices, width, height) {
  // A line for each device: communication apart from other work, the deeper the busier.
  const tall = height / devices.length;
  const [sends, works] = [colour("communication"), colour("k1")];
  devices.forEach((device, line) => {
    const [own, wide] = cellsOf(device.lane), [bucket, busy, , name] = own ?? [[], [], [], []], pixels = wide / (view[1] - view[0]) * width;
    bucket.forEach((one, at) => {
      context.fillStyle = names[name[at]]?.[1] === "collective" ? sends : works;
      context.globalAlpha = Math.min(busy[at] / wide, 1);
      context.fillRect(place(one * wide, width), line * tall, Math.max(pixels, 1), tall > 8 ? tall - 1 : tall);
    });
  });
  context.globalAlpha = 1;
}
function envelope(context, [bucket, low, high], width, height, fill) {
  // A band from the least to the greatest reading; a reading counts until the next one.
  const wide = 2 ** level.shift, least = Math.min(0, ...low.slice(0, 1e5)), most = Math.max(...high.slice(0, 1e5)) || 1;
  const y = (value) => height - 1 - (value - least) / (most - least || 1) * (height - 3);
  context.fillStyle = fill;
  for (let at = 0; at < bucket.length; at++) {
    const x = place(bucket[at] * wide, width), end = at + 1 < bucket.length ? place(bucket[at + 1] * wide, width) : x + Math.max(wide / (view[1] - view[0]) * width, 2);
    if (end < 0 || x > width) continue;
    const top = y(high[at]);
    context.globalAlpha = 0.25;
    context.fillRect(x, top, Math.max(end - x, 1), height - top);
    context.globalAlpha = 1;
    context.fillRect(x, top, Math.max(end - x, 1), Math.max(1.5, y(low[at]) - top));
  }
}
function clipped(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 3 && context.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return end > 3 ? `${text.slice(0, end)}…` : "";
}
function axis(ink) {
  const canvas = $("axis"), context = sized(canvas), width = canvas.clientWidth, span = view[1] - view[0];
  const rough = span / Math.max(width / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const [factor, unit] = units.find(([one]) => step >= one) ?? units[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9));
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = ink;
  for (let at = Math.ceil(view[0] / step) * step; at < view[1]; at += step) {
    const x = place(at, width);
    context.fillRect(x, 14, 1, 8);
    context.fillText(`${(at / factor).toFixed(digits)} ${unit}`, x + 3, 12);
  }
}
function shade() {
  const box = $("brush"), width = $("axis").clientWidth, left = $("axis").offsetLeft;
  box.hidden = !brush;
  if (!brush) return;
  const [from, to] = brush.map((at) => Math.min(Math.max(place(at, width), 0), width));
  box.hidden = to <= 0 || from >= width || brush[0] >= view[1] || brush[1] <= view[0];
  Object.assign(box.style, { left: `${left + from}px`, width: `${Math.max(to - from, 1)}px` });
}

// ---- the part that is shown, and the one that is selected
async function load() {
  const mine = ++asked, width = Math.max($("axis").clientWidth * Math.min(devicePixelRatio || 1, 2), 300);
  const shift = Math.max(0, Math.floor(Math.log2((view[1] - view[0]) / width)));
  const used = rows.flatMap((row) => [row.lane, ...(row.map ?? []).map((device) => device.lane)]);
  const lanes = [...new Set(used)].filter((lane) => lane !== null && lane !== undefined);
  try {
    const answer = await ask.level(Math.floor(view[0]), Math.ceil(view[1]), shift, lanes);
    if (mine !== asked) return;
    level = answer;
    Object.assign(names, answer.names);
  } catch (error) { $("state").textContent = error.message; }
  $("shown").textContent = `${time(view[0])} to ${time(view[1])}: ${time(view[1] - view[0])}`;
  draw();
  document.documentElement.dataset.drawn = "yes"; // for tests, and for who prints the page
}
let waiting = 0;
function show(from, to) {
  const least = Math.min(200, about.length), wide = Math.min(Math.max(to - from, least), about.length);
  from = Math.min(Math.max(from, 0), about.length - wide);
  view = [from, from + wide];
  draw();
  clearTimeout(waiting);
  waiting = setTimeout(() => { load(); if (!brush) tell(); }, 40);
}
const zoomed = (factor, at = (view[0] + view[1]) / 2) => show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
const moved = (part) => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
let told = 0;
async function tell() {
  const mine = ++told, [from, to] = (brush ?? view).map(Math.round);
  const found = await ask.heavy(from, to);
  if (mine !== told) return;
  $("selected").textContent = `${brush ? "Selected" : "Shown"}: ${time(found.length)} from ${time(from)} on, ${count(found.slices)} slices start in it`;
  const folded = listed.device && new Set([...listed.device].map((number) => about.groups[number].name));
  const parts = found.devices.filter((one) => !(folded?.has(one.name) ?? true)).map((one) => one.busy / found.length).sort((a, b) => a - b);
  const others = parts.length ? [element("div", { className: "soft", textContent: `${count(parts.length)} more: busy ${share(parts[0], 1)} to ${share(parts.at(-1), 1)}` })] : [];
  $("devices").replaceChildren(...found.devices.filter((one) => folded?.has(one.name) ?? true).map((one) => {
    const text = `busy ${time(one.busy)}, ${share(one.busy, found.length)} of what is ${brush ? "selected" : "shown"}; idle ${time(found.length - one.busy)}`;
    const meter = element("meter", { min: 0, max: found.length, value: one.busy, title: text });
    meter.setAttribute("aria-label", `${one.name}: ${text}`);
    return element("div", { className: "device" }, element("span", { className: "name", textContent: one.name, title: one.name }), meter, element("span", { textContent: text }));
  }), ...others);
  for (const [id, title] of [["device", "Top device work"], ["host", "Top CPU work, self time"], ["ranges", "Longest ranges"]]) {
    const all = found.totals[id];
    const lines = found[id].slice(0, 15).map(([name, ns, n]) => {
      const [short, operation, full] = found.names[name];
      const chip = element("span", { className: "chip" });
      chip.style.background = `var(--${about.colours[operation] ?? "rest"})`;
      return element("tr", {}, element("td", { title: full }, element("div", { className: "named" }, chip, element("span", { textContent: short }))), element("td", { textContent: operation }),
        ...[time(ns), share(ns, all), count(n)].map((text) => element("td", { className: "figure", textContent: text })));
    });
    const head = element("tr", {}, ...["name", id === "device" ? "operation" : "kind", "time", "share", "count"].map((text, at) => element("th", { textContent: text, className: at > 1 ? "figure" : "" })));
    $(id).replaceChildren(...(lines.length ? [element("h2", { textContent: title }), element("div", { className: "wide" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)))] : []));
  }
  offer(found.slices);
  $("idle").textContent = "";
  if (!found.devices.some((one) => one.busy < found.length)) return;
  const { causes } = await ask.idle(from, to);
  if (mine !== told || !causes?.length) return;
  const all = causes.reduce((sum, [, ns]) => sum + ns, 0);
  $("idle").textContent = `Idle because of: ${causes.map(([cause, ns]) => `${cause} ${time(ns)} (${share(ns, all)})`).join(" · ")}`;
}
function select(part) {
  brush = part;
  shade();
  $("zoom").disabled = !brush;
  tell();
}
function stepped(direction) {
  // To the step or range of the ruler before or after the middle of what is shown.
  const ruler = about.rulers[0], own = ruler && level?.lanes[ruler.lane];
  const [from, to] = brush ?? view, wide = 2 ** (level?.shift ?? 0);
  if (!own) return;
  const runs = [];
  own[0].forEach((bucket, at) => {
    const last = runs.at(-1);
    if (last && last.name === own[3][at] && bucket - last.end <= 1) last.end = bucket + 1;
    else runs.push({ name: own[3][at], start: bucket, end: bucket + 1 });
  });
  const place = direction > 0 ? runs.find((one) => one.start * wide >= (brush ? to - wide : (from + to) / 2)) : runs.findLast((one) => one.end * wide <= (brush ? from + wide : (from + to) / 2));
  if (!place) return;
  const part = [place.start * wide, Math.min(place.end * wide, about.length)];
  if (part[0] < view[0] || part[1] > view[1]) show(part[0] - (view[1] - view[0]) / 4, part[0] + 3 * (view[1] - view[0]) / 4);
  select(part);
}

// ---- the part in Perfetto
let ui = null;
function offer(slices) {
  const opens = $("open"), coarse = $("coarse");
  if (!about.ui) return;
  opens.hidden = false;
  if (about.held) { // the file has this part, whatever is selected
    const [from, to] = about.held, whole = from <= 0 && to >= about.length;
    opens.textContent = whole ? "open in Perfetto" : `open ${time(from)} to ${time(to)} in Perfetto`;
    return;
  }
  const many = slices > about.most;
  opens.classList.toggle("main", !many);
  coarse.hidden = !many;
  coarse.classList.toggle("main", many);
  $("state").textContent = many ? `${count(slices)} slices take the viewer about ${Math.ceil(slices / 150_000)} s: select less, or open it simplified` : "";
}
async function hand(budget) {
  const [from, to] = (about.held ?? brush ?? view).map(Math.round), state = $("state");
  const origin = new URL(about.ui, location).origin;
  if (!ui || ui.closed) ui = open(about.ui, "_blank"); // within the click, else the browser refuses
  if (!ui) { state.textContent = "the browser blocked a new window: allow pop-ups for this page"; return; }
  state.textContent = "extracting this part …";
  try {
    const buffer = await ask.window(from, to, budget);
    state.textContent = "waiting for the viewer …";
    await ready(ui, origin);
    const title = `${about.title} ${time(from)} to ${time(to)}${budget ? ", simplified" : ""}`;
    ui.postMessage({ perfetto: { buffer, title, keepApiOpen: true } }, origin);
    const range = { perfetto: { timeStart: (about.start + from) / 1e9, timeEnd: (about.start + to) / 1e9, viewPercentage: 1 } };
    // The viewer waits 4 s for a trace to be there; it doesn't say when it is.
    for (let after = 0; after <= buffer.byteLength / 2000; after += 4000) setTimeout(() => ui.postMessage(range, origin), after);
    state.textContent = `${(buffer.byteLength / 1e6).toFixed(1)} MB handed to Perfetto`;
  } catch (error) { state.textContent = error.message; }
}
function ready(target, origin) {
  return new Promise((done, failed) => {
    const began = Date.now();
    const ping = setInterval(() => {
      if (target.closed) end(failed, new Error("the viewer was closed"));
      else if (Date.now() - began > 60_000) end(failed, new Error("the viewer doesn't respond: is there a network? (ktrace view --offline needs none)"));
      else target.postMessage("PING", origin);
    }, 50);
    const heard = (event) => { if (event.source === target && event.data === "PONG") end(done); };
    const end = (how, what) => { clearInterval(ping); removeEventListener("message", heard); how(what); };
    addEventListener("message", heard);
  });
}

// ---- what people do
function at(event) {
  const box = $("axis").getBoundingClientRect();
  return view[0] + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (view[1] - view[0]);
}
function pointed(event) {
  const row = rows.find((one) => one.canvas === event.target), device = row && mapped(row, event), tip = $("tip");
  const [own, wide] = row ? cellsOf(device?.lane ?? row.lane) : [null, 1];
  tip.hidden = true;
  const bucket = Math.floor(at(event) / wide), readings = row && level?.counters[row.series];
  if (readings) {
    const found = readings[0].findLastIndex((one) => one <= bucket), [low, high] = [readings[1][found], readings[2][found]];
    if (found < 0) return;
    const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 3 });
    tip.replaceChildren(element("b", { textContent: row.name }), element("br"), `${low === high ? number(low) : `${number(low)} to ${number(high)}`} at ${time(readings[0][found] * wide)}`);
    point(event, tip);
    return;
  }
  const found = own ? own[0].indexOf(bucket) : -1;
  if (found < 0) return;
  const [short, operation, full] = names[own[3][found]] ?? ["", "", ""];
  tip.replaceChildren(...(device ? [element("b", { textContent: device.name }), element("br")] : []), element("b", { textContent: short }), element("br"), `${operation} · busy ${time(own[1][found])} of ${time(wide)} at ${time(bucket * wide)} · ${count(own[2][found])} begin`, ...(full !== short ? [element("br"), element("span", { className: "soft", textContent: full.slice(0, 300) })] : []));
  point(event, tip);
}
const mapped = (row, event) => row.map?.[Math.min(Math.floor(event.offsetY / row.canvas.clientHeight * row.map.length), row.map.length - 1)];
function point(event, tip) {
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
}
function listen() {
  const box = $("lanes");
  let from = null, pressed = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.tagName !== "CANVAS") return;
    pressed = event.target;
    from = at(event);
    box.setPointerCapture(event.pointerId);
    box.focus({ preventScroll: true });
  });
  box.addEventListener("pointermove", (event) => {
    if (from === null) { pointed(event); return; }
    $("tip").hidden = true;
    brush = [Math.min(from, at(event)), Math.max(from, at(event))];
    shade();
  });
  box.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const width = Math.abs(at(event) - from) / (view[1] - view[0]) * $("axis").clientWidth;
    from = null;
    const row = rows.find((one) => one.map && one.canvas === pressed);
    if (row && width <= 3 && listed.device) { listed.device.add(mapped(row, { offsetY: event.clientY - pressed.getBoundingClientRect().top }).number); lay(); load(); }
    select(width > 3 ? brush : null);
  });
  box.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  box.addEventListener("dblclick", (event) => zoomed(0.25, at(event)));
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX) && event.target.tagName !== "CANVAS") return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) moved((event.deltaX || event.deltaY) / 800);
    else zoomed(1.0018 ** event.deltaY, at(event));
  }, { passive: false });
  const whole = () => { select(null); show(0, about.length); };
  const zoom = () => { if (brush) { const part = brush; select(null); show(...part); } };
  const actions = { whole, in: () => zoomed(0.5), out: () => zoomed(2), back: () => moved(-0.5), on: () => moved(0.5), before: () => stepped(-1), next: () => stepped(1), zoom, open: () => hand(0), coarse: () => hand(about.most) };
  for (const [id, action] of Object.entries(actions)) $(id).onclick = action;
  const keys = { w: "in", s: "out", a: "back", d: "on", "+": "in", "-": "out", ArrowLeft: "back", ArrowRight: "on", Escape: "whole", Enter: "zoom", p: "before", n: "next", o: "open" };
  addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.target.tagName === "BUTTON") return;
    const id = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (id && !$(id).hidden && !$(id).disabled) { event.preventDefault(); actions[id](); }
    if (event.key === "/") { event.preventDefault(); $("words").focus(); }
  });
  $("search").onsubmit = async (event) => {
    event.preventDefault();
    const words = $("words").value.trim();
    const lanes = words ? await ask.found(words) : [];
    marks = new Map(lanes.map((one) => [one.lane, one]));
    $("found").textContent = words ? (lanes.length ? `on ${count(lanes.length)} lanes, marked` : "nowhere") : "";
    draw();
  };
  $("words").oninput = () => { if (!$("words").value) $("search").requestSubmit(); };
  let width = box.clientWidth; // an observer is told of what it begins with, too
  new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; load(); } }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
let ask = served;
async function begin() {
  const inside = $("data");
  if (inside) ask = inFile(await unpacked(inside.textContent).json());
  about = await ask.about();
  if ($("held")) about.held = JSON.parse($("held").textContent); // the part of the time whose trace is in the file
  Object.assign(names, about.fine?.names);
  view = [0, about.length];
  $("about").textContent = `${count(about.rows)} rows, ${time(about.length)} · ${about.inputs}`;
  $("before").hidden = $("next").hidden = !about.rulers.length;
  $("zoom").disabled = true;
  fold();
  lay();
  listen();
  await load();
  tell();
}
begin().catch((error) => { $("about").textContent = error.message; });
