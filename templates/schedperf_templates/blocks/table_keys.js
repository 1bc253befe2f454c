// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Keys that act on one table and its current row.
(() => {
  // The table with the focus, or the first one in view, or the next one below.
  const current = (isWanted = () => true) => {
    const focused = Tables.of(document.activeElement?.closest(".table"));
    const found = [...document.querySelectorAll("main .table")].map(Tables.of);
    const isAhead = (table) => table?.element.checkVisibility() && table.element.getBoundingClientRect().bottom > 0;
    return [focused, ...found.filter(isAhead)].find((table) => table && isWanted(table));
  };

  // A key that no table handles is left to other handlers.
  const onTable = (act, isWanted) => () => {
    const table = current(isWanted);
    return table ? act(table) : false;
  };
  const hasRows = (table) => table.rows.shown.length > 0;
  const onRow = (act) => onTable((table) => act(table, table.current), (table) => table.rows.shown.includes(table.current));

  page.press("j", "next row of the table", onTable((table) => table.step(1), hasRows));
  page.press("k", "previous row of the table", onTable((table) => table.step(-1), hasRows));
  page.press("Enter", "open or close the row", onRow((table, item) => (
    item.opened && document.activeElement === item.row ? table.open(item, !item.isOpen) : false
  )));
  page.press("c", "copy the row", onRow((table, item) => { page.copy(table.write("plain", [item]), "row copied"); }));
  page.press("x", "hide the row", onRow((table, item) => table.hide(item)));
  page.press("/", "search in the table", onTable((table) => table.tools.search.focus(), (table) => table.tools));
})();
