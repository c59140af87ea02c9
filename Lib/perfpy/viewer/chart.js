// A flame graph: a tree of calls, drawn on a canvas.
//
// Only frames as wide as a pixel are placed, and only rows in the window are
// drawn, so that the time this takes depends on the window, not on the profile.
//
// For people who do not see it or have no mouse, the chart is a tree as WAI-ARIA
// has it, of which only one item is in the document: that of the frame at which
// the arrow keys have arrived.

const ROW_HEIGHT = 20;
const LABEL_FROM = 28;            // narrower frames have no label
const STRIPE = 6;                 // pixels, and as many between two
const LONGEST_LABEL = 200;        // letters
const LABEL_FONT = 'system-ui, "DejaVu Sans", sans-serif';

class Chart {
  // An element to draw in, and what the page knows about frames:
  //   name(frame), describe(tree, node)   texts
  //   paint(frame, node)                  {fill, text, italic, stripe}: colours,
  //                                       stripe is that of stripes, if any
  // and what it does about events:
  //   onOpen(node)                        a frame is clicked
  //   onMove(node)                        arrow keys went there
  //   onHover(node, event)                the mouse did, or left: null
  //   onLayout()                          other frames are shown
  constructor(id, page) {
    this.container = byId(id);
    this.page = page;
    this.isUpward = page.isUpward ?? false;
    this.canvas = element("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.pointed = element("div", undefined, "pointed");
    this.pointed.hidden = true;
    this.container.append(this.canvas, this.pointed);
    this.tree = null;
    this.zoomed = 0;
    this.at = 0;
    this.rows = [];
    this.widths = new Map();      // of labels
    this.container.setAttribute("role", "tree");
    this.container.tabIndex = 0;
    // A finger does not hover, and would leave behind what follows a mouse.
    this.container.addEventListener("pointermove", event => {
      if (event.pointerType !== "touch") this.point(event);
    });
    this.container.addEventListener("pointerleave", () => this.point(null));
    this.container.addEventListener("click", event => {
      const box = this.hit(event);
      if (box) this.page.onOpen(box.node);
    });
    this.container.addEventListener("keydown", event => this.type(event));
    new ResizeObserver(() => {
      if (this.container.clientWidth !== this.width) this.place();
    }).observe(this.container);
    for (const name of ["scroll", "resize"]) {
      window.addEventListener(name, () => this.drawSoon(), {passive: true, capture: true});
    }
    // What is on the canvas, for tests.
    this.container.shownFrames = () => this.rows.flatMap((row, depth) =>
      row.map(({node, x, width}) => ({
        node, x, width, y: this.top(depth), name: page.name(this.tree.frames[node]),
        ...page.paint(this.tree.frames[node], node),
      })));
  }

  show(tree, zoomed = 0, at = zoomed) {
    this.tree = tree;
    this.zoomed = zoomed;
    this.at = at;
    this.place();
  }

  // A hidden container has no width, and is drawn when it gets one.
  place() {
    this.width = this.container.clientWidth;
    if (!this.tree || !this.width) return;
    this.rows = this.layout();
    this.container.style.height = this.rows.length * ROW_HEIGHT + "px";
    this.drawn = null;
    this.draw();
    this.markPlace();
    this.page.onLayout?.();
  }

  // Returns the boxes of each row: the callers of the zoomed frame, as wide as
  // it is, then each frame's children below it, from the largest to the smallest.
  layout() {
    const {tree, width} = this;
    const scale = width / (tree.totals[this.zoomed] || 1);
    const rows = [];
    const put = (node, depth, x) => {
      (rows[depth] ??= []).push({node, x, width: tree.totals[node] * scale});
    };
    const way = [0, ...tree.way(this.zoomed)];
    way.slice(0, -1).forEach((node, depth) => { rows[depth] = [{node, x: 0, width}]; });
    const pending = [{node: this.zoomed, depth: way.length - 1, x: 0}];
    while (pending.length) {
      const {node, depth, x} = pending.pop();
      put(node, depth, x);
      let left = x;
      const inner = tree.children(node, 1 / scale).map(child => {
        const place = {node: child, depth: depth + 1, x: left};
        left += tree.totals[child] * scale;
        return place;
      });
      pending.push(...inner.reverse());
    }
    return rows;
  }

  // How many frames below the zoomed one are too narrow to be shown.
  get leftOut() {
    if (!this.width || !this.tree) return 0;
    const depth = this.tree.way(this.zoomed).length;
    return this.tree.sizes[this.zoomed] - (this.zoomed ? 1 : 0)
           - this.rows.slice(depth + 1).reduce((sum, row) => sum + row.length, 0);
  }

  top(depth) {
    return (this.isUpward ? this.rows.length - 1 - depth : depth) * ROW_HEIGHT;
  }

  // ---- Drawing

  drawSoon() {
    if (this.request || !this.width) return;
    this.request = requestAnimationFrame(() => {
      this.request = 0;
      this.draw();
    });
  }

  redraw() {
    this.drawn = null;
    this.drawSoon();
    this.markPlace();
  }

  // Draws the rows that are in the window, and some around them.
  draw() {
    if (!this.tree || !this.width) return;
    const height = this.rows.length * ROW_HEIGHT;
    const {top} = this.container.getBoundingClientRect();
    const from = Math.max(0, -top);
    const to = Math.min(height, window.innerHeight - top);
    const density = window.devicePixelRatio;
    if (to <= from || this.drawn && this.drawn.density === density
        && this.drawn.from <= from && this.drawn.to >= to) return;
    const spare = window.innerHeight / 2;
    const start = Math.floor(Math.max(0, from - spare) / ROW_HEIGHT) * ROW_HEIGHT;
    const end = Math.min(height, to + spare);
    this.drawn = {from: start, to: end, density};
    const {canvas} = this;
    canvas.width = Math.round(this.width * density);
    canvas.height = Math.round((end - start) * density);
    Object.assign(canvas.style, {
      top: start + "px", width: this.width + "px", height: end - start + "px"});
    const context = canvas.getContext("2d");
    context.scale(density, density);
    context.textBaseline = "middle";
    this.rows.forEach((row, depth) => {
      const y = this.top(depth);
      if (y + ROW_HEIGHT > start && y < end) {
        this.drawRow(context, row, y - start);
      }
    });
  }

  drawRow(context, row, y) {
    const {frames} = this.tree;
    for (const {node, x, width} of row) {
      const {fill, text, italic, stripe} = this.page.paint(frames[node], node);
      const room = width > 3 ? width - 1 : width;
      context.fillStyle = fill;
      context.fillRect(x, y, room, ROW_HEIGHT - 1);
      if (stripe) this.drawStripes(context, stripe, x, y, room);
      if (width < LABEL_FROM) continue;
      context.fillStyle = text;
      context.font = `${italic ? "italic " : ""}12px ${LABEL_FONT}`;
      const label = this.fit(context, this.page.name(frames[node]), width - 9);
      context.fillText(label, x + 4, y + ROW_HEIGHT / 2, width - 9);
    }
  }

  drawStripes(context, stripe, x, y, width) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, ROW_HEIGHT - 1);
    context.clip();
    context.fillStyle = stripe;
    context.beginPath();
    for (let left = x - ROW_HEIGHT; left < x + width; left += 2 * STRIPE) {
      context.moveTo(left, y + ROW_HEIGHT);
      context.lineTo(left + ROW_HEIGHT, y);
      context.lineTo(left + ROW_HEIGHT + STRIPE, y);
      context.lineTo(left + STRIPE, y + ROW_HEIGHT);
    }
    context.fill();
    context.restore();
  }

  // Returns as much of a label as fits.
  fit(context, label, room) {
    const letters = label.slice(0, LONGEST_LABEL);
    let width = this.widths.get(letters);
    if (width === undefined) {
      width = context.measureText(letters).width;
      this.widths.set(letters, width);
    }
    if (width <= room && letters === label) return label;
    const count = Math.floor(letters.length * (room - 10) / width);
    return count > 0 ? letters.slice(0, count) + "…" : "";
  }

  // ---- Pointing

  hit(event) {
    const box = this.container.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / ROW_HEIGHT);
    const x = event.clientX - box.left;
    const boxes = this.rows[this.isUpward ? this.rows.length - 1 - row : row];
    return boxes?.find(place => place.x <= x && x < place.x + place.width);
  }

  point(event) {
    const box = event && this.hit(event);
    this.pointed.hidden = !box;
    if (box) this.lay(this.pointed, box.node);
    this.page.onHover(this.tree, box ? box.node : null, event);
  }

  boxOf(node) {
    return this.rows[this.tree.way(node).length]?.find(box => box.node === node);
  }

  // Puts an element where a node's frame is.
  lay(item, node) {
    const box = this.boxOf(node);
    if (!box) return;
    Object.assign(item.style, {
      left: box.x + "px", width: Math.max(3, box.width - 1) + "px",
      top: this.top(this.tree.way(node).length) + "px",
      height: ROW_HEIGHT - 1 + "px"});
  }

  // ---- Keys

  // Makes the item of the frame at which the keys are.  It is a new one each
  // time: of a change within the same one, screen readers would not tell.
  markPlace() {
    const {tree, at} = this;
    if (!tree || !this.width) return;
    const way = tree.way(at);
    const siblings = at ? tree.children(tree.parents[at]) : [0];
    const item = element("div", undefined, "at");
    item.id = `${this.container.id}-at-${at}`;
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-label", this.page.describe(tree, at));
    item.setAttribute("aria-level", way.length + 1);
    item.setAttribute("aria-setsize", siblings.length);
    item.setAttribute("aria-posinset", siblings.indexOf(at) + 1);
    if (tree.children(at).length) item.setAttribute("aria-expanded", "true");
    item.setAttribute("aria-selected", "true");
    this.item?.remove();
    this.item = item;
    this.container.append(item);
    this.container.setAttribute("aria-activedescendant", item.id);
    this.lay(item, at);
  }

  // Goes to a node; the page zooms if it is not shown.
  move(node) {
    this.at = node;
    this.page.onMove(node);
    this.markPlace();
    this.item.scrollIntoView({block: "nearest"});
  }

  type(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.tree) return;
    const {tree, at} = this;
    const siblings = at ? tree.children(tree.parents[at]) : [];
    const [inward, outward] = this.isUpward ? ["ArrowUp", "ArrowDown"]
      : ["ArrowDown", "ArrowUp"];
    const goals = {
      [inward]: () => tree.children(at)[0],
      [outward]: () => at && tree.parents[at],
      ArrowLeft: () => siblings[siblings.indexOf(at) - 1],
      ArrowRight: () => siblings[siblings.indexOf(at) + 1],
      Home: () => 0,
    };
    if (goals[event.key]) {
      const node = goals[event.key]();
      if (node !== undefined && node !== at) this.move(node);
    } else if (event.key === "Enter" || event.key === " ") {
      this.page.onOpen(at);
    } else {
      return;
    }
    event.preventDefault();
  }
}
