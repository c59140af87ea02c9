// What profile.html does: it makes trees of the profile, lets d3-flame-graph draw
// them, and lists the functions.  Written into the page by perfpy/html.py.
//
// The element #profile has this JSON:
//   meta                        what is known about the recording, texts by name
//   kinds                       names of the kinds of frames
//   names, kindOf, fileOf       for each frame: text, index in kinds, in files
//   files                       texts
//   threads                     [{pid, process, name, samples}]
//   folded, unfolded            the stacks, without and with the interpreter:
//     parents, frames           for each stack: the stack without its innermost
//                               frame or -1 (it precedes), and that frame
//     threads                   for each thread {stacks, microseconds}, parallel
//
// Names are shown by textContent only: they come from the profiled program.
"use strict";
(() => {
  const profile = JSON.parse(document.getElementById("profile").textContent);
  const ROOT = -1;                // in place of a frame
  const SMALLEST = 0.001;         // of a chart's width
  const ROWS = 200;               // of the table, at first
  const ROW_HEIGHT = 20;
  const SHADES = 3;

  const byId = id => document.getElementById(id);
  const state = {
    threads: profile.threads.map((_, index) => index),
    title: "all",
    internals: false,
    sort: "self",
    descending: true,
    allRows: false,
    zoomed: null,                 // the node that the flame graph is zoomed to
    chosen: null,                 // the frame of the sandwich
    found: null,                  // for each frame whether the search finds it
  };
  let view;                       // see look()

  // ---- Words

  const percent = share => (share * 100).toFixed(share < 0.0995 ? 2 : 1) + " %";

  function duration(microseconds) {
    if (microseconds >= 1e6) return (microseconds / 1e6).toFixed(2) + " s";
    if (microseconds >= 1e3) return (microseconds / 1e3).toFixed(1) + " ms";
    return Math.round(microseconds) + " µs";
  }

  const amount = value => `${percent(value / view.total)} (${duration(value)})`;
  const fileOf = frame => frame === ROOT ? "" : profile.files[profile.fileOf[frame]];
  const baseName = path => path.slice(path.lastIndexOf("/") + 1);

  function nameOf(frame) {
    if (frame === ROOT) return state.title;
    const name = profile.names[frame];
    // These say nothing without their file.
    return name === "<module>" || name === "[unknown]"
      ? `${name} ${baseName(fileOf(frame))}` : name;
  }

  function colourOf(frame) {
    if (frame === ROOT) return "var(--root)";
    if (state.found && state.found[frame]) return "var(--found)";
    const shade = [...profile.names[frame]].reduce(
      (sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % SHADES;
    return `var(--${profile.kinds[profile.kindOf[frame]]}-${shade})`;
  }

  function element(tag, text, className) {
    const result = document.createElement(tag);
    if (text !== undefined) result.textContent = text;
    if (className) result.className = className;
    return result;
  }

  function swatch(colour) {
    const result = element("span", "", "swatch");
    result.style.background = colour;
    return result;
  }

  // ---- Trees

  // Sums up the chosen threads: own and total microseconds of each stack and of
  // each frame.  A frame that is in a stack several times counts once.
  function look() {
    const source = state.internals ? profile.unfolded : profile.folded;
    const {parents, frames} = source;
    const own = new Float64Array(parents.length);
    let withoutStack = 0;
    for (const thread of state.threads) {
      const {stacks, microseconds} = source.threads[thread];
      stacks.forEach((stack, index) => {
        if (stack < 0) withoutStack += microseconds[index];
        else own[stack] += microseconds[index];
      });
    }
    const totals = own.slice();
    let total = withoutStack;
    for (let stack = parents.length - 1; stack >= 0; stack--) {
      if (parents[stack] < 0) total += totals[stack];
      else totals[parents[stack]] += totals[stack];
    }
    const frameOwn = new Float64Array(profile.names.length);
    const frameTotal = new Float64Array(profile.names.length);
    const outermost = new Map();        // frame: its stacks that count
    for (let stack = 0; stack < parents.length; stack++) {
      if (!totals[stack]) continue;
      const frame = frames[stack];
      frameOwn[frame] += own[stack];
      let outer = parents[stack];
      while (outer >= 0 && frames[outer] !== frame) outer = parents[outer];
      if (outer >= 0) continue;
      frameTotal[frame] += totals[stack];
      if (!outermost.has(frame)) outermost.set(frame, []);
      outermost.get(frame).push(stack);
    }
    view = {parents, frames, own, totals, total, frameOwn, frameTotal, outermost};
  }

  const node = frame => ({frame, value: 0, own: 0, children: []});

  function child(parent, frame) {
    parent.byFrame ??= new Map();
    let result = parent.byFrame.get(frame);
    if (!result) {
      result = node(frame);
      parent.byFrame.set(frame, result);
      parent.children.push(result);
    }
    return result;
  }

  // The tree of all stacks, which are its nodes.
  function wholeTree() {
    const {parents, frames, own, totals, total} = view;
    const root = node(ROOT);
    root.value = total;
    const nodes = [];
    for (let stack = 0; stack < parents.length; stack++) {
      if (!totals[stack]) continue;
      nodes[stack] = node(frames[stack]);
      nodes[stack].value = totals[stack];
      nodes[stack].own = own[stack];
      (parents[stack] < 0 ? root : nodes[parents[stack]]).children.push(nodes[stack]);
    }
    return root;
  }

  // The tree of those that call frame, and their callers, outwards.
  function callersTree(frame) {
    const {parents, frames, totals} = view;
    const root = node(frame);
    for (const stack of view.outermost.get(frame) ?? []) {
      let place = root;
      place.value += totals[stack];
      for (let outer = parents[stack]; outer >= 0; outer = parents[outer]) {
        place = child(place, frames[outer]);
        place.value += totals[stack];
      }
    }
    return root;
  }

  // The tree of all that frame calls.
  function calleesTree(frame) {
    const {parents, frames, own, totals} = view;
    const root = node(frame);
    const places = new Map();
    for (const stack of view.outermost.get(frame) ?? []) places.set(stack, root);
    for (let stack = 0; stack < parents.length; stack++) {
      if (!totals[stack]) continue;
      let place = places.get(stack);
      if (!place) {
        const parent = places.get(parents[stack]);
        if (!parent) continue;
        place = child(parent, frames[stack]);
        places.set(stack, place);
      }
      place.value += totals[stack];
      place.own += own[stack];
    }
    return root;
  }

  // ---- Charts

  const tip = element("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  // d3-flame-graph's own tooltip leaves the window at its edges.
  function tooltip() {}
  tooltip.show = (event, {data}) => {
    tip.replaceChildren(
      element("strong", nameOf(data.frame)),
      element("span", fileOf(data.frame)),
      element("span", `total ${amount(data.value)}`
                      + (data.own ? `, self ${amount(data.own)}` : "")));
    tip.hidden = false;
    const {width, height} = tip.getBoundingClientRect();
    const right = window.innerWidth - width - 8;
    const below = event.clientY + 16;
    tip.style.left = Math.max(8, Math.min(event.clientX + 12, right)) + "px";
    tip.style.top = (below + height < window.innerHeight
                     ? below : Math.max(8, event.clientY - height - 12)) + "px";
  };
  tooltip.hide = () => { tip.hidden = true; };

  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  // A chart in a container: draws a tree, and follows the container's width.
  class Chart {
    constructor(id, isUpward, onZoom) {
      this.container = byId(id);
      this.isUpward = isUpward;
      this.onZoom = onZoom;
      new ResizeObserver(() => this.fit()).observe(this.container);
    }

    draw(tree) {
      this.container.replaceChildren();
      this.tree = tree;
      this.width = 0;
      this.graph = flamegraph.default()
        .cellHeight(ROW_HEIGHT)
        .inverted(!this.isUpward)
        .transitionDuration(calm ? 0 : 250)
        .resetHeightOnZoom(true)
        .sort((a, b) => b.data.value - a.data.value)
        .tooltip(tooltip)
        .getName(({data}) => nameOf(data.frame))
        .setLabelHandler(() => "")
        .setColorMapper(({data}) => colourOf(data.frame))
        .onClick(zoomed => this.onZoom(zoomed.data));
      this.fit();
    }

    // A hidden container has no width, and is drawn when it gets one.
    fit() {
      const width = this.container.clientWidth;
      if (!this.graph || !width || width === this.width) return;
      const isFirst = !this.width;
      this.width = width;
      this.graph.width(width).minFrameSize(width * SMALLEST);
      if (isFirst) d3.select(this.container).datum(this.tree).call(this.graph);
      else this.graph.update();
      this.onZoom(null);
    }

    recolour() {
      if (this.width) this.graph.update();
    }

    reset() {
      this.graph.resetZoom();
    }

    // Says which frames are missing, if any are.
    leftOut() {
      if (!this.width) return "";
      let count = 0;
      const pending = [d3.select(this.container).datum()];
      while (pending.length) {
        const next = pending.pop();
        if (next.data.hide) continue;
        count++;
        pending.push(...next.children ?? []);
      }
      const missing = count - this.container.querySelectorAll("g").length;
      return missing <= 0 ? ""
        : `${missing.toLocaleString("en")} frames narrower than `
          + `${percent(SMALLEST)} of the width are left out; zoom in to see them.`;
    }
  }

  const flame = new Chart("flame", false, zoomed => {
    state.zoomed = zoomed ?? state.zoomed;
    showDetails();
    byId("left-out").textContent = flame.leftOut();
  });
  const describeSandwich = () => {
    byId("sandwich-left-out").textContent = callers.leftOut() || callees.leftOut();
  };
  const callers = new Chart("callers", true, describeSandwich);
  const callees = new Chart("callees", false, describeSandwich);

  // The line above the flame graph: what is zoomed to, or what a search found.
  function showDetails() {
    const {zoomed} = state;
    const isRoot = zoomed.frame === ROOT;
    const file = element("span", " " + fileOf(zoomed.frame), "file");
    byId("details").replaceChildren(
      element("strong", nameOf(zoomed.frame)), file,
      ` · total ${amount(zoomed.value)}`
      + (zoomed.own ? ` · self ${amount(zoomed.own)}` : ""));
    byId("details").title = byId("details").textContent;
    byId("reset").disabled = isRoot;
    byId("sandwich-of").hidden = isRoot;
    byId("sandwich-of").onclick = () => {
      choose(zoomed.frame);
      show("functions");
    };
    if (isRoot && state.found) showFound();
  }

  function showFound() {
    let sum = 0;
    const functions = new Set();
    const pending = [[flame.tree, false]];
    while (pending.length) {
      const [next, isInside] = pending.pop();
      const isFound = next.frame !== ROOT && state.found[next.frame];
      if (isFound) functions.add(next.frame);
      if (isFound && !isInside) sum += next.value;
      for (const inner of next.children) pending.push([inner, isInside || isFound]);
    }
    byId("details").textContent = functions.size
      ? `“${byId("search").value}”: ${functions.size} `
        + `${functions.size === 1 ? "function" : "functions"}, in ${amount(sum)} of the time`
      : `“${byId("search").value}” is not in a function's or file's name`;
  }

  // ---- Functions

  const COLUMNS = {
    name: (a, b) => nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : 0,
    self: (a, b) => view.frameOwn[a] - view.frameOwn[b],
    total: (a, b) => view.frameTotal[a] - view.frameTotal[b],
  };

  function numberCell(value) {
    const cell = element("td", percent(value / view.total), "number");
    cell.style.setProperty("--share", 100 * value / view.total + "%");
    cell.title = duration(value);
    return cell;
  }

  function row(frame) {
    const result = element("tr", undefined, frame === state.chosen ? "chosen" : "");
    const name = element("td");
    const parts = element("div");
    const button = element("button", nameOf(frame));
    const file = baseName(fileOf(frame));
    button.onclick = () => choose(frame);
    name.title = `${nameOf(frame)}\n${fileOf(frame)}`;
    parts.append(swatch(`var(--${profile.kinds[profile.kindOf[frame]]}-0)`), button);
    if (!nameOf(frame).endsWith(file)) parts.append(element("span", file, "file"));
    name.append(parts);
    result.append(name, numberCell(view.frameOwn[frame]), numberCell(view.frameTotal[frame]));
    return result;
  }

  function list() {
    const order = COLUMNS[state.sort];
    const sign = state.descending ? -1 : 1;
    const functions = [...view.outermost.keys()]
      .filter(frame => !state.found || state.found[frame])
      .sort((a, b) => sign * order(a, b) || COLUMNS.name(a, b));
    const shown = state.allRows ? functions : functions.slice(0, ROWS);
    byId("rows").replaceChildren(...shown.map(row));
    byId("all-rows").hidden = shown.length === functions.length;
    byId("row-count").textContent = shown.length === functions.length
      ? `${functions.length.toLocaleString("en")} functions`
      : `${shown.length} of ${functions.length.toLocaleString("en")} functions`;
    for (const button of document.querySelectorAll("th button")) {
      const cell = button.parentElement;
      if (button.dataset.sort !== state.sort) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    }
    return functions;
  }

  // Puts a function between its callers and those it calls.
  function choose(frame) {
    state.chosen = frame;
    list();
    const exists = frame !== null && view.outermost.has(frame);
    byId("sandwich").hidden = !exists;
    if (!exists) return;
    byId("chosen").textContent = nameOf(frame);
    byId("chosen-file").textContent = fileOf(frame);
    byId("chosen-details").textContent =
      `total ${amount(view.frameTotal[frame])} · self ${amount(view.frameOwn[frame])}`;
    callers.draw(callersTree(frame));
    callees.draw(calleesTree(frame));
  }

  // ---- The whole page

  function show(id) {
    for (const name of ["graph", "functions"]) {
      byId(name).hidden = name !== id;
      byId("show-" + name).setAttribute("aria-selected", name === id);
    }
  }

  // After another choice of threads or frames.
  function refresh() {
    look();
    state.zoomed = wholeTree();
    flame.draw(state.zoomed);
    const functions = list();
    choose(view.outermost.has(state.chosen) ? state.chosen : functions[0] ?? null);
  }

  function search() {
    const text = byId("search").value.trim().toLowerCase();
    state.found = text ? profile.names.map((_, frame) =>
      `${nameOf(frame)}\n${fileOf(frame)}`.toLowerCase().includes(text)) : null;
    showDetails();
    for (const chart of [flame, callers, callees]) chart.recolour();
    list();
  }

  function fillHeader() {
    const {meta} = profile;
    byId("command").textContent = meta.command ?? "profile";
    const samples = profile.threads.reduce((sum, thread) => sum + thread.samples, 0);
    const time = profile.unfolded.threads.reduce((sum, thread) =>
      thread.microseconds.reduce((a, b) => a + b, sum), 0);
    byId("summary").textContent = [
      `${duration(time)} of running time in ${samples.toLocaleString("en")} samples`,
      profile.threads.length > 1 && `${profile.threads.length} threads`,
      meta.python && `Python ${meta.python.replace(/^Python /, "")}`,
      meta.started && meta.started.replace("T", " ").replace(/\.\d+|[+-]\d\d:\d\d$|Z$/g, ""),
    ].filter(Boolean).join(" · ");
    for (const [name, value] of Object.entries(meta)) {
      byId("meta").append(element("dt", name), element("dd", value));
    }
    byId("about").hidden = !Object.keys(meta).length;
    for (const kind of profile.kinds) {
      const item = element("li");
      item.append(swatch(`var(--${kind}-0)`), kind[0].toUpperCase() + kind.slice(1));
      byId("legend").append(item);
    }
  }

  // All, each process that is not alone, each thread that is not alone in one.
  function fillThreads() {
    const choices = [];
    const add = (title, label, threads) => {
      byId("threads").append(new Option(label, choices.length));
      choices.push({title, threads});
    };
    const processes = new Map();
    profile.threads.forEach(({pid}, index) => {
      if (!processes.has(pid)) processes.set(pid, []);
      processes.get(pid).push(index);
    });
    const isOne = profile.threads.length === 1;
    add(isOne ? profile.threads[0].name : "all",
        processes.size > 1 ? "All processes" : isOne ? profile.threads[0].name : "All threads",
        state.threads);
    for (const [pid, threads] of processes) {
      const process = `${profile.threads[threads[0]].process} ${pid}`;
      if (processes.size > 1) add(process, process, threads);
      if (threads.length === 1) continue;
      for (const thread of threads) {
        const {name} = profile.threads[thread];
        add(name, (processes.size > 1 ? "\u2003" : "") + name, [thread]);
      }
    }
    byId("threads").onchange = event => {
      Object.assign(state, choices[event.target.value]);
      refresh();
    };
    state.title = choices[0].title;
  }

  byId("show-graph").onclick = () => show("graph");
  byId("show-functions").onclick = () => show("functions");
  byId("reset").onclick = () => flame.reset();
  byId("search").oninput = search;
  byId("internals").checked = false;    // browsers remember what it was
  byId("internals").onchange = event => {
    state.internals = event.target.checked;
    refresh();
  };
  byId("all-rows").onclick = () => {
    state.allRows = true;
    list();
  };
  for (const button of document.querySelectorAll("th button")) {
    button.onclick = () => {
      const column = button.dataset.sort;
      state.descending = column === state.sort ? !state.descending : column !== "name";
      state.sort = column;
      list();
    };
  }
  document.onkeydown = event => {
    const isTyping = event.target === byId("search");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && !isTyping && !byId("graph").hidden) {
      flame.reset();
    }
  };

  fillHeader();
  fillThreads();
  if (profile.threads.some(({samples}) => samples)) {
    refresh();
  } else {
    byId("details").textContent = "The recording has no samples.";
  }
})();
