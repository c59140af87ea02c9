// What one can do with the page: choose what to look at, zoom, search, list.
//
// The last of the scripts that perfpy/html.py joins; data.js says what there is.
// Names are shown by textContent only: they come from the profiled program.

const ROWS = 100;                 // of the table, at first and with each "more"
const SHADES = 2;                 // of each colour, so that neighbours differ, or
                                  // for stripes
const NARROW = 3;                 // pixels: too narrow to find
const WIDE = 40;                  // pixels: wide enough to read a little
const CHANGES = 8;                // steps of colour, of a comparison
const TYPING = 300;               // milliseconds after which the address follows

function startPage(profile) {
  const choices = [];             // of processes and threads
  const state = {
    view: "graph",
    choice: 0,                    // of threads
    internals: false,
    zoomed: 0,                    // node that the graph is zoomed to
    chosen: null,                 // frame of the sandwich
    sort: "self",
    order: usualOrder("self"),
    rows: ROWS,
    found: null,                  // for each frame whether the search finds it
    matches: null,                // nodes or frames that it finds, when asked for
    match: -1,                    // which of them has been gone to
    sources: FUNCTIONS,           // functions in the view of lines
  };
  const calls = {};               // by name of the view, made when first shown
  let tree, times;                // of the chosen threads
  let functions;                  // frames in the list, in its order
  let sides;                      // of a comparison: trees after and before

  // ---- Words

  const percent = share => (share * 100).toFixed(share < 0.0995 ? 2 : 1) + " %";

  function duration(time) {
    if (profile.unit) return `${time.toLocaleString("en")} ${profile.unit}`;
    if (time >= 1e6) return (time / 1e6).toFixed(2) + " s";
    if (time >= 1e3) return (time / 1e3).toFixed(1) + " ms";
    return time + " µs";
  }

  const amount = value =>
    `${percent(tree.total ? value / tree.total : 0)} (${duration(value)})`;
  const fileOf = frame => frame === ROOT ? "" : profile.files[profile.fileOf[frame]];
  // Without directories, unless all packages have a file of that name.
  const baseName = path => path.match(/([^/]*\/)?__(init|main)__\.py$/)?.[0]
    ?? path.slice(path.lastIndexOf("/") + 1);
  const labelOf = frame => frame === ROOT ? "" : profile.labels[profile.originOf[frame]];

  const names = profile.names.map((name, frame) =>
    // These say nothing without their file.
    name === "<module>" || name === "[unknown]"
      ? `${name} ${baseName(fileOf(frame))}` : name);
  const nameOf = frame => frame === ROOT ? choices[state.choice].title : names[frame];
  const haystacks = names.map((name, frame) =>
    `${name}\n${fileOf(frame)}`.toLowerCase());

  function timesText(inTree, node) {
    if (profile.isDiff && inTree === tree) {
      const {before, after} = changeOf(node);
      const change = after - before;
      return `${duration(before)} before, ${duration(after)} after: `
        + (change < 0 ? "−" : "+") + duration(Math.abs(change))
        + (before ? ` (${change < 0 ? "−" : "+"}${percent(Math.abs(change) / before)})` : " (new)");
    }
    const own = inTree.own[node];
    return `total ${amount(inTree.totals[node])}` + (own ? `, self ${amount(own)}` : "");
  }

  // What a screen reader says of a frame.
  function describe(inTree, node) {
    const frame = inTree.frames[node];
    const words = [nameOf(frame), timesText(inTree, node), labelOf(frame), fileOf(frame)];
    if (state.found?.[frame]) words.push("found");
    return words.filter(Boolean).join(", ");
  }

  // ---- Colours

  const shades = names.map(name => [...name.slice(0, 64)].reduce(
    (sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % SHADES);
  let palette;

  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    const parts = name => style.getPropertyValue(`--${name}`).match(/[0-9a-f]{2}/gi)
      .map(digits => parseInt(digits, 16));
    const written = colour => `rgb(${colour.map(Math.round).join(" ")})`;
    const page = parts("page");
    const inks = [parts("dark-ink"), parts("light-ink")];
    const light = ([red, green, blue]) => 0.2126 * (red / 255) ** 2.2
      + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2;
    const paint = (colour, italic) => ({
      fill: written(colour), italic,
      text: written(light(colour) > 0.18 ? inks[0] : inks[1]),
    });
    const faded = colour => ({
      ...paint(colour.map((part, index) => part * 0.28 + page[index] * 0.72)),
      text: written(parts("quiet")),
    });
    palette = {root: paint(parts("root")), vivid: [], dim: []};
    for (const name of ["more", "less"]) {
      palette[name] = Array.from({length: CHANGES + 1}, (_, step) => paint(
        parts("same").map((part, index) =>
          part + (parts(name)[index] - part) * step / CHANGES)));
    }
    profile.origins.forEach((origin, number) => {
      const colours = [parts(`${origin}-0`), parts(`${origin}-1`)];
      for (const colour of colours) {
        palette.vivid.push(profile.waits[number]
          ? {...paint(colours[0], true), stripe: written(colours[1])}
          : paint(colour, origin === "mark"));
        palette.dim.push(faded(colour));
      }
    });
  }

  function paint(frame) {
    if (frame === ROOT) return palette.root;
    const isDim = state.found && !state.found[frame];
    return (isDim ? palette.dim : palette.vivid)[
      profile.originOf[frame] * SHADES + shades[frame]];
  }

  // The colour of a change: from that of the page to that of more or of less, the
  // stronger the larger the change is, as a share of what was there.
  function paintChange(frame, node) {
    if (frame === ROOT) return palette.root;
    const {before, after} = changeOf(node);
    const share = Math.max(-1, Math.min(1, (after - before) / (Math.max(before, after) || 1)));
    const step = Math.round(Math.abs(share) * CHANGES);
    const colour = palette[share > 0 ? "more" : "less"][step];
    return state.found && !state.found[frame] ? {...palette.dim[0], fill: colour.fill} : colour;
  }

  function changeOf(node) {
    return {after: sides[0].totals[node], before: sides[1].totals[node]};
  }

  function swatch(origin) {
    const result = element("span", undefined, "swatch");
    const name = profile.origins[origin];
    result.style.background = profile.waits[origin]
      ? `repeating-linear-gradient(135deg, var(--${name}-0) 0 3px, var(--${name}-1) 3px 6px)`
      : `var(--${name}-0)`;
    result.setAttribute("role", "img");
    result.setAttribute("aria-label", profile.labels[origin]);
    return result;
  }

  // ---- The graph

  const tip = byId("tip");

  function hover(inTree, node, event) {
    tip.hidden = node === null;
    if (tip.hidden) return;
    const frame = inTree.frames[node];
    tip.replaceChildren(
      element("strong", nameOf(frame)),
      element("span", [labelOf(frame), fileOf(frame)].filter(Boolean).join(" · ")),
      element("span", timesText(inTree, node)));
    const {width, height} = tip.getBoundingClientRect();
    const right = window.innerWidth - width - 8;
    const below = event.clientY + 16;
    tip.style.left = Math.max(8, Math.min(event.clientX + 12, right)) + "px";
    tip.style.top = (below + height < window.innerHeight
                     ? below : Math.max(8, event.clientY - height - 12)) + "px";
  }

  const leftOutText = count => count <= 0 ? ""
    : `${count.toLocaleString("en")} ${count === 1 ? "frame is" : "frames are"} narrower `
      + "than a pixel and left out; ";

  const flame = new Chart("flame", {
    name: nameOf, describe, paint: profile.isDiff ? paintChange : paint,
    onHover: hover,
    onOpen: zoom,
    onMove: reveal,
    onLayout: () => {
      byId("left-out").textContent = flame.leftOut > 0
        ? leftOutText(flame.leftOut) + "zoom in to see them." : "";
    },
  });

  function zoom(node) {
    state.zoomed = node;
    flame.show(tree, node);
    showDetails();
    remember();
  }

  // Zooms so that a node can be seen, if it cannot.
  function reveal(node) {
    const box = flame.boxOf(node);
    if (!box || box.width < NARROW) {
      const enough = tree.totals[node] * flame.width / WIDE;
      const way = [0, ...tree.way(node)];
      state.zoomed = way.find(outer => tree.totals[outer] <= enough) ?? node;
      flame.show(tree, state.zoomed, node);
      remember(false);
    }
    showDetails();
  }

  // The line above the flame graph: where one is.
  function showDetails() {
    const frame = tree.frames[flame.at];
    const own = tree.own[flame.at];
    byId("details").replaceChildren(
      element("strong", nameOf(frame)), " ", element("span", fileOf(frame), "file"),
      [labelOf(frame), `total ${amount(tree.totals[flame.at])}`, own && `self ${amount(own)}`]
        .filter(Boolean).map(text => ` · ${text}`).join(""),
      profile.isDiff ? ` · ${timesText(tree, flame.at)}` : "");
    byId("details").title = byId("details").textContent;
    byId("reset").disabled = !state.zoomed;
    byId("sandwich-of").hidden = frame === ROOT;
    byId("lines-of").hidden = frame === ROOT || sourceOf(frame) < 0;
  }

  // ---- Search

  // Looks for the text of the search field in the names of functions and files.
  function look() {
    const wanted = byId("search").value.trim().toLowerCase();
    state.found = wanted
      ? Uint8Array.from(haystacks, haystack => haystack.includes(wanted)) : null;
  }

  function showSearch() {
    state.matches = null;
    state.match = -1;
    state.rows = ROWS;
    for (const chart of [flame, callers, callees]) chart.redraw();
    showFound();
    list();
    showLines();
  }

  function showFound() {
    let text = "";
    let count = 0;
    if (state.found) {
      times.total.forEach((time, frame) => { count += time && state.found[frame] ? 1 : 0; });
      text = count
        ? `${count.toLocaleString("en")} ${count === 1 ? "function" : "functions"} in `
          + amount(timeFound(tree, state.found))
        : "in no function's or file's name";
    }
    if (state.match >= 0) {
      text += ` · ${(state.match + 1).toLocaleString("en")} of `
              + state.matches.length.toLocaleString("en");
    }
    byId("found").textContent = text;
    byId("previous").disabled = byId("next").disabled = !count;
  }

  // Goes to the next match, or the one before: in the graph the next smaller
  // frame, in the list the next row.
  function step(direction) {
    if (!state.found) return;
    const isGraph = state.view === "graph";
    state.matches ??= isGraph ? matchesIn(tree, state.found) : functions;
    const count = state.matches.length;
    if (!count) return;
    state.match = state.match < 0 && direction < 0 ? count - 1
      : (state.match + direction + count) % count;
    const match = state.matches[state.match];
    if (isGraph) flame.move(match);
    else choose(match);
    showFound();
  }

  // ---- Functions

  const callers = new Chart("callers", sandwichChart(true));
  const callees = new Chart("callees", sandwichChart(false));

  // A frame that is clicked becomes the one in the middle.
  function sandwichChart(isUpward) {
    return {
      isUpward, name: nameOf, describe, paint,
      onHover: hover,
      onOpen: node => choose((isUpward ? callers : callees).tree.frames[node]),
      onMove: () => {},
      onLayout: () => {
        const text = leftOutText(callers.leftOut + callees.leftOut);
        byId("sandwich-left-out").textContent =
          text && text + "click on what calls them to see them.";
      },
    };
  }

  const isNarrow = window.matchMedia("(max-width: 900px)");   // as in page.css
  const COLUMNS = {
    name: (a, b) => nameOf(a) < nameOf(b) ? -1 : nameOf(a) > nameOf(b) ? 1 : a - b,
    self: (a, b) => times.own[a] - times.own[b],
    total: (a, b) => times.total[a] - times.total[b],
  };

  function numberCell(value) {
    const share = tree.total ? value / tree.total : 0;
    const cell = element("td", percent(share), "number");
    cell.style.setProperty("--share", 100 * share + "%");
    cell.title = duration(value);
    return cell;
  }

  function row(frame) {
    const isChosen = frame === chosen();
    const result = element("tr", undefined, isChosen ? "chosen" : "");
    const name = element("td");
    const parts = element("div");
    const button = element("button", nameOf(frame));
    const file = baseName(fileOf(frame));
    button.onclick = () => {
      choose(frame);
      if (isNarrow.matches) byId("sandwich").scrollIntoView({block: "nearest"});
    };
    button.dataset.frame = frame;
    button.tabIndex = isChosen ? 0 : -1;
    if (isChosen) button.setAttribute("aria-current", "true");
    name.title = `${nameOf(frame)}\n${fileOf(frame)}`;
    parts.append(swatch(profile.originOf[frame]), button);
    if (file && !nameOf(frame).endsWith(file)) parts.append(element("span", file, "file"));
    name.append(parts);
    result.append(name, numberCell(times.own[frame]), numberCell(times.total[frame]));
    return result;
  }

  // The frame of the sandwich: what was chosen, or the first in the list.
  const chosen = () => times.total[state.chosen] ? state.chosen : functions[0] ?? null;

  function list() {
    if (state.view !== "functions") return;
    const order = COLUMNS[state.sort];
    const sign = state.order === "descending" ? -1 : 1;
    functions = [];
    times.total.forEach((time, frame) => {
      if (time && (!state.found || state.found[frame])) functions.push(frame);
    });
    functions.sort((a, b) =>
      sign * order(a, b) || COLUMNS.total(b, a) || COLUMNS.name(a, b));
    const shown = functions.slice(0, state.rows);
    const place = functions.indexOf(chosen());
    if (place >= state.rows) shown.push(chosen());    // it stays in sight
    const hadFocus = byId("rows").contains(document.activeElement);
    byId("rows").replaceChildren(...shown.map(row));
    const current = byId("rows").querySelector("[tabindex='0']");
    if (!current) byId("rows").querySelector("button")?.setAttribute("tabindex", "0");
    if (hadFocus) current?.focus({preventScroll: true});
    byId("more-rows").hidden = functions.length <= state.rows;
    byId("row-count").textContent = functions.length <= state.rows
      ? `${functions.length.toLocaleString("en")} functions`
      : `${state.rows} of ${functions.length.toLocaleString("en")} functions`;
    for (const button of document.querySelectorAll("th button")) {
      const cell = button.parentElement;
      if (button.dataset.sort !== state.sort) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", state.order);
    }
  }

  // Puts a function between its callers and those it calls.
  function showSandwich() {
    if (state.view !== "functions") return;
    const frame = chosen();
    byId("sandwich").hidden = frame === null;
    if (frame === null) return;
    byId("chosen").textContent = nameOf(frame);
    byId("chosen-file").textContent =
      [labelOf(frame), fileOf(frame)].filter(Boolean).join(" · ");
    byId("chosen-details").textContent =
      `total ${amount(times.total[frame])} · self ${amount(times.own[frame])}`;
    const share = 1 / screen.width;       // nothing is drawn wider
    callers.show(callersOf(tree, frame, share));
    callees.show(calleesOf(tree, frame, share));
  }

  function choose(frame) {
    state.chosen = frame;
    list();
    showSandwich();
    byId("rows").querySelector(".chosen")?.scrollIntoView({block: "nearest"});
    remember();
  }

  function chooseByKey(event) {
    const place = functions.indexOf(chosen());
    const goals = {ArrowDown: place + 1, ArrowUp: place - 1, Home: 0};
    const frame = functions[goals[event.key]];
    if (frame === undefined) return;
    event.preventDefault();
    choose(frame);
  }

  // ---- Lines

  // The time of the chosen threads, of which lines have their shares.
  function wholeTime() {
    const {threads} = calls[state.internals ? "unfolded" : "folded"];
    return linesOf().reduce((sum, thread) => threads[thread].times.reduce(
      (part, time) => part + time, sum), 0);
  }

  // The threads whose lines are shown: in a comparison, both sides.
  const linesOf = () => choices[profile.isDiff ? 0 : state.choice].threads
    .concat(profile.isDiff ? choices[1].threads : []);

  // What is known of a source in the chosen threads, or undefined.
  function inThreads(source) {
    const chosen = new Set(linesOf());
    if (profile.isDiff) {
      const side = index => source.ofThreads.find(([thread]) => thread === index)?.[1] ?? [];
      return {...source, times: side(0), before: side(1)};
    }
    if (chosen.size === profile.threads.length) return source;
    const sums = new Map();
    for (const [thread, times] of source.ofThreads) {
      if (!chosen.has(thread)) continue;
      for (const [line, own, total] of times) {
        const [ownBefore, totalBefore] = sums.get(line) ?? [0, 0];
        sums.set(line, [ownBefore + own, totalBefore + total]);
      }
    }
    const times = [...sums].map(([line, both]) => [line, ...both]);
    return times.length ? {...source, times} : undefined;
  }

  // Functions have their lines in the order of the time in the chosen threads.
  function sourcesInThreads() {
    const own = ({times, before}) => [times, before ?? []].flat()
      .reduce((sum, [, time]) => sum + time, 0);
    return profile.source.map(inThreads).filter(Boolean)
      .map(source => [own(source), source])
      .sort(([a], [b]) => b - a).map(([, source]) => source);
  }

  const sourceOf = frame => profile.source.findIndex(source => source.frame === frame);

  function showLines() {
    if (state.view !== "lines") return;
    const all = wholeTime();
    const found = sourcesInThreads().filter(
      ({frame}) => !state.found || state.found[frame]);
    const place = found.findIndex(({frame}) => frame === state.chosen);
    if (place >= state.sources) state.sources = place + 1;
    byId("sources").replaceChildren(...found.slice(0, state.sources).map(source =>
      sourceBlock(source, {
        name: nameOf, file: fileOf, duration,
        percent: profile.isDiff ? duration : time => percent(all ? time / all : 0),
        share: time => percent(all ? time / all : 0),
        open: frame => lead("functions", frame),
      })));
    if (profile.isDiff) {
      byId("lines-note").textContent = "The hottest functions come first.  Lines are those of "
        + "the later recording; times of the earlier one are there if its file is known.";
    }
    byId("no-sources").hidden = found.length > 0;
    byId("more-sources").hidden = found.length <= state.sources;
    byId("sources").querySelector(`[data-frame="${state.chosen}"]`)
      ?.scrollIntoView({block: "start"});
  }

  // ---- The whole page

  function show(view) {
    state.view = view;
    state.matches = null;
    state.match = -1;
    showTabs();
    showFound();
    list();
    showSandwich();
    showLines();
  }

  // Shows a function elsewhere, and lets the keys go on there.
  function lead(view, frame) {
    state.chosen = frame;
    show(view);
    remember();
    const place = view === "lines"
      ? byId("sources").querySelector(`[data-frame="${frame}"] button`)
      : byId("rows").querySelector("tr.chosen button");
    (place ?? byId("show-" + view)).focus({preventScroll: true});
  }

  function showTabs() {
    for (const name of ["graph", "functions", "lines"]) {
      const isShown = name === state.view;
      byId(name).hidden = !isShown;
      byId("show-" + name).setAttribute("aria-selected", isShown);
      byId("show-" + name).tabIndex = isShown ? 0 : -1;
    }
  }

  // After another choice of threads or frames; stays where it was, if it can.
  function refresh(names) {
    const view = state.internals ? "unfolded" : "folded";
    calls[view] ??= callsOf(profile.views[view]);
    tree = treeOf(calls[view], choices[state.choice].threads);
    times = timesOf(tree, profile.names.length);
    if (profile.isDiff) sides = [0, 1].map(side => treeOf(calls[view], [side]));
    state.zoomed = zoomNode(tree, names, nameOf);
    flame.show(tree, state.zoomed);
    showDetails();
    showSearch();
    showSandwich();
    showLines();
  }

  function current() {
    return {
      view: state.view,
      thread: state.choice ? choices[state.choice].title : "",
      internals: state.internals,
      search: byId("search").value,
      zoom: zoomNames(tree, state.zoomed, nameOf),
      chosen: state.chosen === null ? null
        : [plain(nameOf(state.chosen)), plain(fileOf(state.chosen))],
      sort: state.sort,
      order: state.order,
    };
  }

  const remember = (isNew = true) => writeAddress(current(), isNew);

  // Returns the frame that the address means, or null.
  function frameOf(wanted, file) {
    const frame = names.findIndex((name, index) => plain(name) === wanted
      && (file === null || plain(fileOf(index)) === file));
    return frame < 0 ? null : frame;
  }

  // Shows what the address says.
  function obey() {
    const said = readAddress();
    Object.assign(state, {
      view: said.view,
      internals: said.internals,
      choice: Math.max(0, choices.findIndex(({title}) => title === said.thread)),
      sort: said.sort,
      order: said.order,
      chosen: said.chosen && frameOf(...said.chosen),
    });
    if (state.view === "lines" && !profile.source.length) state.view = "graph";
    byId("threads").selectedIndex = state.choice;
    byId("internals").checked = state.internals;
    byId("search").value = said.search;
    look();
    showTabs();
    refresh(said.zoom);
  }

  function fillHeader() {
    const {meta} = profile;
    byId("command").textContent = meta.command ?? "profile";
    byId("summary").textContent = [
      profile.summary,
      meta.python && `Python ${meta.python.replace(/^Python /, "")}`,
      meta.started && meta.started.replace("T", " ").replace(/\.\d+|[+-]\d\d:\d\d$|Z$/g, ""),
    ].filter(Boolean).join(" · ");
    for (const [name, value] of Object.entries(meta)) {
      byId("meta").append(element("dt", name), element("dd", value));
    }
    byId("about").hidden = !Object.keys(meta).length;
    if (profile.isDiff) {
      for (const [name, text] of [["less", "less than before"], ["same", "the same"],
                                  ["more", "more than before"]]) {
        const item = element("li");
        const colour = element("span", undefined, "swatch");
        colour.style.background = `var(--${name})`;
        item.append(colour, text);
        byId("legend").append(item);
      }
      return;
    }
    const present = new Set(profile.originOf);
    profile.labels.forEach((label, origin) => {
      if (!present.has(origin)) return;
      const item = element("li");
      item.append(swatch(origin), label);
      item.firstChild.setAttribute("aria-hidden", "true");
      byId("legend").append(item);
    });
  }

  // All, each process that is not alone, each thread that is not alone in one.
  function fillThreads() {
    if (profile.isDiff) {
      ["after", "before"].forEach((title, side) => {
        byId("threads").append(new Option(`as wide as ${title}`, side));
        choices.push({title, threads: [side]});
      });
      return;
    }
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
        profile.threads.map((_, index) => index));
    for (const [pid, threads] of processes) {
      const process = `${profile.threads[threads[0]].process} ${pid}`;
      if (processes.size > 1) add(process, process, threads);
      if (threads.length === 1) continue;
      for (const thread of threads) {
        const {name} = profile.threads[thread];
        add(name, (processes.size > 1 ? "\u2003" : "") + name, [thread]);
      }
    }
  }

  function listen() {
    const tabs = [byId("show-graph"), byId("show-functions")];
    if (profile.source.length) {
      tabs.push(byId("show-lines"));
      byId("show-lines").hidden = false;
    }
    tabs.forEach((tab, index) => {
      tab.onclick = () => {
        show(tab.id.slice("show-".length));
        remember();
      };
      tab.onkeydown = event => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        const step = event.key === "ArrowRight" ? 1 : tabs.length - 1;
        const other = tabs[(index + step) % tabs.length];
        other.focus();
        other.click();
      };
    });
    byId("threads").onchange = event => {
      const zoomed = zoomNames(tree, state.zoomed, nameOf);
      state.choice = Number(event.target.value);
      refresh(zoomed);
      remember();
    };
    byId("internals").onchange = event => {
      const zoomed = zoomNames(tree, state.zoomed, nameOf);
      state.internals = event.target.checked;
      refresh(zoomed);
      remember();
    };
    byId("reset").onclick = () => zoom(0);
    byId("sandwich-of").onclick = () => lead("functions", tree.frames[flame.at]);
    byId("lines-of").onclick = () => lead("lines", tree.frames[flame.at]);
    byId("more-sources").onclick = () => {
      state.sources += FUNCTIONS;
      showLines();
    };
    byId("more-rows").onclick = () => {
      state.rows += ROWS;
      list();
    };
    byId("rows").onkeydown = chooseByKey;
    for (const button of document.querySelectorAll("th button")) {
      button.onclick = () => {
        const column = button.dataset.sort;
        state.chosen = chosen();
        if (column !== state.sort) state.order = usualOrder(column);
        else state.order = state.order === "ascending" ? "descending" : "ascending";
        state.sort = column;
        state.matches = null;
        list();
        remember();
      };
    }
    listenToSearch();
    document.onkeydown = event => {
      const isText = event.target.matches("input[type=search], select");
      if (event.ctrlKey || event.altKey || event.metaKey || isText) return;
      if (event.key === "/") byId("search").select();
      else if (event.key === "n") step(1);
      else if (event.key === "N" || event.key === "p") step(-1);
      else if (event.key === "c" && state.view === "graph" && flame.at) byId("sandwich-of").click();
      else if (event.key === "l" && state.view === "graph" && !byId("lines-of").hidden) byId("lines-of").click();
      else if (event.key === "Escape" && state.view === "graph" && state.zoomed) zoom(0);
      else return;
      event.preventDefault();
    };
    window.addEventListener("popstate", obey);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      readPalette();
      for (const chart of [flame, callers, callees]) chart.redraw();
    });
  }

  // A search is one entry of the history, however many letters it has.
  function listenToSearch() {
    let isNew = true;
    let timer;
    byId("search").onfocus = () => { isNew = true; };
    byId("search").oninput = () => {
      look();
      showSearch();
      clearTimeout(timer);
      timer = setTimeout(() => {
        remember(isNew);
        isNew = false;
      }, TYPING);
    };
    byId("search").onkeydown = event => {
      if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    };
    byId("previous").onclick = () => step(-1);
    byId("next").onclick = () => step(1);
  }

  fillHeader();
  fillThreads();
  readPalette();
  if (!profile.threads.some(({samples}) => samples)) {
    byId("details").textContent = "The recording has no samples.";
    return;
  }
  obey();
  listen();
}

function byId(id) {
  return document.getElementById(id);
}

function element(tag, text, className) {
  const result = document.createElement(tag);
  if (text !== undefined) result.textContent = text;
  if (className) result.className = className;
  return result;
}

async function start() {
  const data = byId("profile");
  let profile;
  try {
    profile = await readProfile(data.textContent);
  } catch {
    byId("details").textContent = window.DecompressionStream
      ? "This file is damaged.  Write it again: perfpy report --format html."
      : "This browser cannot unpack the profile.  Chrome 80, Firefox 113, Safari"
        + " 16.4 and later ones can.";
  }
  data.remove();
  if (profile) startPage(profile);
  document.querySelector("main").removeAttribute("aria-busy");
}

start();
