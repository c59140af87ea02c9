// The view of the source: functions with their lines, and the time of each.

const FUNCTIONS = 20;             // with text, at first and with each "more"

// Returns the element of a function's lines.
//   source                       as data.js describes it, with the times to show; in
//                                a comparison, before has those of the other side
//   page                         {name(frame), file(frame), percent(time), share(time),
//                                duration(time), open(frame)}
function sourceBlock(source, page) {
  const {frame, first, text, changed} = source;
  const byLine = times => new Map((times ?? []).map(([line, ...both]) => [line, both]));
  const columns = [byLine(source.times)];
  if (source.before) columns.push(byLine(source.before));
  const block = element("section", undefined, "source");
  block.dataset.frame = frame;
  const head = element("h3");
  const button = element("button", page.name(frame));
  button.title = "Callers and callees";
  button.onclick = () => page.open(frame);
  head.append(button, " ", element("span", `${page.file(frame)}:${first}`, "file"));
  block.append(head);
  const notes = [changed && "the file has changed since the recording",
                 !text.length && "the file could not be read"].filter(Boolean);
  if (notes.length) block.append(element("p", notes.join("; "), "note"));
  const table = element("table", undefined, source.before ? "both" : "");
  table.setAttribute("aria-label", `Lines of ${page.name(frame)}`);
  const last = text.length ? first + text.length - 1 : first - 1;
  const numbers = [];
  for (let line = first; line <= last; line++) numbers.push(line);
  for (const line of new Set(columns.flatMap(times => [...times.keys()]))) {
    if (line < first || line > last) numbers.push(line);
  }
  const heads = element("tr");
  const titles = ["Line", "Self", "Total", "Text"];
  if (source.before) titles.splice(1, 2, "Self", "before", "Total", "before");
  for (const title of titles) {
    const cell = element("th", title, {Text: "", Line: "number line"}[title] ?? "number");
    cell.scope = "col";
    heads.append(cell);
  }
  table.append(heads);
  for (const line of numbers) {
    const row = element("tr");
    row.append(element("td", line, "number line"));
    const found = columns.map(times => times.get(line) ?? []);
    for (const time of [0, 1].flatMap(which => found.map(both => both[which]))) {
      const cell = element("td", time ? page.percent(time) : "", "number");
      if (time) {
        cell.style.setProperty("--share", page.share(time).replace(" ", ""));
        cell.title = page.duration(time);
      }
      row.append(cell);
    }
    row.append(element("td", text[line - first] ?? "", "code"));
    row.classList.toggle("timed", found.some(([, total]) => total));
    row.classList.toggle("hot", found.some(([own]) => own));
    table.append(row);
  }
  block.append(table);
  return block;
}
