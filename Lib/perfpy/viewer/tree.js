// Trees of calls with their times, and what is computed from them.
//
// Nodes are numbers.  Node 0 is the root, and a parent precedes its children.
// There may be millions, so they have arrays in common instead of objects.

class Tree {
  // The calls as callsOf() makes them, and the times of each node: its own and,
  // unless they are to be summed up, with all below it.
  constructor({parents, frames, first, next}, own, totals) {
    Object.assign(this, {parents, frames, first, next, own});
    this.totals = totals ?? own.slice();
    this.sizes = new Uint32Array(parents.length);   // nodes with time, from here
    for (let node = parents.length - 1; node > 0; node--) {
      if (!this.totals[node]) continue;
      const parent = parents[node];
      if (!totals) this.totals[parent] += this.totals[node];
      this.sizes[node]++;
      this.sizes[parent] += this.sizes[node];
    }
  }

  get total() {
    return this.totals[0];
  }

  // Returns the children that have at least so much time, the largest first.
  children(node, least = 1) {
    const {first, next, totals} = this;
    const result = [];
    for (let child = first[node]; child; child = next[child]) {
      if (totals[child] >= least) result.push(child);
    }
    return result.sort((a, b) => totals[b] - totals[a] || a - b);
  }

  // Returns the nodes on the way from below the root to a node.
  way(node) {
    const result = [];
    for (; node > 0; node = this.parents[node]) result.unshift(node);
    return result;
  }

  contains(outer, node) {
    while (node > outer) node = this.parents[node];
    return node === outer;
  }
}

// Returns the tree of some threads.
function treeOf(calls, threads) {
  const own = new Float64Array(calls.parents.length);
  for (const thread of threads) {
    const {nodes, times} = calls.threads[thread];
    nodes.forEach((node, index) => { own[node] += times[index]; });
  }
  return new Tree(calls, own);
}

// Returns each frame's own and total time.  A frame that is in a stack
// several times counts once.
function timesOf(tree, frameCount) {
  const {parents, frames, first, next} = tree;
  const own = new Float64Array(frameCount);
  const total = new Float64Array(frameCount);
  const active = new Uint32Array(frameCount);       // times on the way to the node
  let node = first[0];
  while (node) {
    const frame = frames[node];
    own[frame] += tree.own[node];
    if (!active[frame]++) total[frame] += tree.totals[node];
    if (first[node]) {
      node = first[node];
      continue;
    }
    while (node && !next[node]) {
      active[frames[node]]--;
      node = parents[node];
    }
    if (!node) break;
    active[frames[node]]--;
    node = next[node];
  }
  return {own, total};
}

// Returns the time in frames that are found and in what they call.
function timeFound(tree, isFound) {
  const {parents, frames, totals} = tree;
  const isInside = new Uint8Array(parents.length);
  let time = 0;
  for (let node = 1; node < parents.length; node++) {
    const isMatch = isFound[frames[node]];
    const isBelow = isInside[parents[node]];
    isInside[node] = isMatch | isBelow;
    if (isMatch && !isBelow) time += totals[node];
  }
  return time;
}

// Returns the nodes of frames that are found, the largest first.
function matchesIn(tree, isFound) {
  const {parents, frames, totals} = tree;
  const result = [];
  for (let node = 1; node < parents.length; node++) {
    if (totals[node] && isFound[frames[node]]) result.push(node);
  }
  return Int32Array.from(result).sort((a, b) => totals[b] - totals[a] || a - b);
}

// ---- Callers and callees

// Returns the nodes of a frame that are not inside of others of it.
function outermostOf({parents, frames, totals}, frame) {
  const result = [];
  for (let node = 1; node < parents.length; node++) {
    if (frames[node] !== frame || !totals[node]) continue;
    let outer = parents[node];
    while (outer && frames[outer] !== frame) outer = parents[outer];
    if (!outer) result.push(node);
  }
  return result;
}

// Returns the tree that a frame is the root of, and that goes on from nodes to
// their neighbours, which neighbours() visits with the time that they share and
// the time of their own.
// What is smaller than a share of it is left out: nothing would show it.
function grow(tree, frame, share, neighbours) {
  const roots = outermostOf(tree, frame);
  const result = {
    parents: [-1], frames: [frame], own: [0],
    totals: [roots.reduce((sum, node) => sum + tree.totals[node], 0)],
  };
  const least = result.totals[0] * share;
  const pending = [{place: 0, nodes: roots,
                    times: roots.map(node => tree.totals[node])}];
  while (pending.length) {
    const {place, nodes, times} = pending.pop();
    const groups = new Map();
    const visit = (node, time, own) => {
      let group = groups.get(tree.frames[node]);
      if (!group) {
        group = {nodes: [], times: [], own: 0, total: 0};
        groups.set(tree.frames[node], group);
      }
      group.nodes.push(node);
      group.times.push(time);
      group.own += own;
      group.total += time;
    };
    nodes.forEach((node, index) => neighbours(node, times[index], visit));
    for (const [outer, group] of groups) {
      if (group.total < least) continue;
      pending.push({place: result.parents.length, ...group});
      result.parents.push(place);
      result.frames.push(outer);
      result.own.push(group.own);
      result.totals.push(group.total);
    }
  }
  return new Tree({...linked(result.parents), frames: result.frames},
                  result.own, result.totals);
}

// Returns the tree of those that call a frame, and their callers, outwards.
function callersOf(tree, frame, share) {
  return grow(tree, frame, share, (node, time, visit) => {
    if (tree.parents[node]) visit(tree.parents[node], time, 0);
  });
}

// Returns the tree of all that a frame calls.
function calleesOf(tree, frame, share) {
  return grow(tree, frame, share, (node, time, visit) => {
    for (let child = tree.first[node]; child; child = tree.next[child]) {
      if (tree.totals[child]) visit(child, tree.totals[child], tree.own[child]);
    }
  });
}
