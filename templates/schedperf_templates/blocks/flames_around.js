// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The zoom of a flame graph: the path to its frame, and the callers and callees of its function on
// all paths together.
const FlameAround = (() => {
  const MOST_ROWS = 12;
  // In a longer path, the callers in the middle are one button, which shows them.
  const MOST_STEPS = 8;
  const FIRST_STEPS = 2;
  const LAST_STEPS = 4;
  const { make, makeButton } = page;

  // One button per caller; the last one is the current frame.
  const drawPath = (element, tree, focus, zoom) => {
    const frames = [0, ...tree.callersOf(focus)];
    const buttons = frames.map((frame) => makeButton(frame === 0 ? "all" : tree.name(frame), () => zoom(frame)));
    buttons.at(-1).setAttribute("aria-current", "true");
    element.hidden = focus === 0;
    if (buttons.length <= MOST_STEPS) {
      element.replaceChildren(...buttons);
      return;
    }
    const hidden = buttons.length - FIRST_STEPS - LAST_STEPS;
    const showAll = () => {
      element.replaceChildren(...buttons);
      buttons[FIRST_STEPS].focus();
    };
    const more = makeButton(`\u2026 ${hidden} callers`, showAll, { title: "show all callers" });
    element.replaceChildren(...buttons.slice(0, FIRST_STEPS), more, ...buttons.slice(-LAST_STEPS));
  };

  const drawRow = (tree, group, zoom) => {
    const row = make("tr");
    const name = make("th", { scope: "row", class: "code" });
    // The root and small frames have no name of a function.
    const target = group.name < 0 ? 0 : tree.widest(group.name);
    name.append(target > 0 ? makeButton(group.label, () => zoom(target)) : group.label);
    const values = tree.sides > 1 ? [group.base, group.new].map(FlameTree.number) : [FlameTree.number(group.base)];
    const change = tree.sides > 1 ? [FlameTree.signed(group.new - group.base)] : [];
    row.append(name, ...[...values, ...change].map((text) => make("td", { class: "number" }, text)));
    return row;
  };

  const drawTable = (tree, words, groups, zoom) => {
    const table = make("table");
    const head = table.createTHead().insertRow();
    const columns = tree.sides > 1 ? ["base", "new", `change, ${tree.changeUnit}`] : [tree.unit];
    head.append(make("th", { scope: "col" }, "function"), ...columns.map((text) => make("th", { scope: "col", class: "number" }, text)));
    const shown = groups.slice(0, MOST_ROWS);
    const more = groups.length > shown.length ? `; ${groups.length - shown.length} smaller functions not shown` : "";
    table.createCaption().append(make("span", {}, `${words}${groups.length ? more : ": none"}`));
    table.createTBody().append(...shown.map((group) => drawRow(tree, group, zoom)));
    return table;
  };

  // Two small tables for the function of a frame; none for the root and for merged frames.
  const drawTables = (element, tree, frame, zoom) => {
    const name = tree.data.name[frame];
    element.hidden = name < 0;
    if (name < 0) {
      element.replaceChildren();
      return;
    }
    const { callers, callees } = tree.around(name);
    const sums = `${tree.unit}, summed over all call paths, no CIs`;
    element.replaceChildren(
      drawTable(tree, `Callers of ${tree.name(frame)}: ${sums}`, callers, zoom),
      drawTable(tree, `Callees of ${tree.name(frame)}: ${sums}`, callees, zoom),
    );
  };

  return { drawPath, drawTables };
})();
