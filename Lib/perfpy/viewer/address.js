// What the page shows, spelled out in its address, so that Back, a reload and a
// link lead to it: "#view=functions&function=main&file=/srv/app.py".
//
//   view        graph, which is not said, functions, or lines
//   thread      text of the choice in the menu, if it is not the first
//   internals   on
//   search      the text
//   zoom        for each frame on the way to the one that the graph is zoomed
//               to its name; "name~2" is the second largest one of that name
//   function, file      the function between callers and callees; of any file,
//                       if none is said
//   sort, order         of the list, if not self and the usual one
//
// Names are those that people see, not numbers: they fit another recording of
// the same program as well, as far as it has them.

const LONGEST_NAME = 100;         // letters

// Returns a name as it can stand in an address.
const plain = name => name.slice(0, LONGEST_NAME).replace(/\p{Surrogate}/gu, "\ufffd");

// Returns a node's children by what they are called in an address.
function namedChildren(tree, node, nameOf) {
  const result = new Map();
  const counts = new Map();
  for (const child of tree.children(node)) {
    const name = plain(nameOf(tree.frames[child]));
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    const key = count > 1 ? `${name}~${count}` : name;
    if (!result.has(key)) result.set(key, child);
  }
  return result;
}

function zoomNames(tree, node, nameOf) {
  return tree.way(node).map(inner => {
    const children = namedChildren(tree, tree.parents[inner], nameOf);
    return [...children].find(([, child]) => child === inner)?.[0] ?? "";
  });
}

// Returns the node with these names, or the last one on the way that is there.
function zoomNode(tree, names, nameOf) {
  let node = 0;
  for (const name of names) {
    const child = namedChildren(tree, node, nameOf).get(name);
    if (!child) break;
    node = child;
  }
  return node;
}

const usualOrder = column => column === "name" ? "ascending" : "descending";

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  const get = name => said.get(name) ?? "";
  const sort = ["name", "total"].find(name => name === get("sort")) ?? "self";
  const order = ["ascending", "descending"].find(name => name === get("order"))
    ?? usualOrder(sort);
  return {
    view: ["functions", "lines"].find(name => name === get("view")) ?? "graph",
    thread: get("thread"),
    internals: get("internals") === "on",
    search: get("search"),
    zoom: said.getAll("zoom"),
    chosen: said.has("function") ? [get("function"), said.get("file")] : null,
    sort,
    order,
  };
}

// Writes the address of a state like the one that readAddress() returns; as a
// new entry of the browser's history, or in place of the last.
function writeAddress(state, isNew) {
  const said = new URLSearchParams();
  if (state.view !== "graph") said.set("view", state.view);
  if (state.thread) said.set("thread", state.thread);
  if (state.internals) said.set("internals", "on");
  if (state.search) said.set("search", state.search);
  for (const name of state.zoom) said.append("zoom", name);
  if (state.chosen) {
    said.set("function", state.chosen[0]);
    said.set("file", state.chosen[1]);
  }
  if (state.sort !== "self") said.set("sort", state.sort);
  if (state.order !== usualOrder(state.sort)) said.set("order", state.order);
  const fragment = said.toString();
  if (fragment === location.hash.slice(1)) return;
  const address = fragment ? "#" + fragment : location.pathname + location.search;
  try {
    history[isNew ? "pushState" : "replaceState"](null, "", address);
  } catch {
    // A page in another's frame may have no address of its own, and browsers
    // refuse to write too many: then it stays as it is.
  }
}
