"use strict";
// The keys of tables: they act on one table, and on its current row.
(() => {
  // The table that has the focus, else the first in view.
  const current = (isWanted = () => true) => {
    const focused = Tables.of(document.activeElement?.closest(".table"));
    const isInView = (table) => {
      const { top, bottom } = table.element.getBoundingClientRect();
      return table.element.checkVisibility() && bottom > 0 && top < innerHeight;
    };
    const found = [...document.querySelectorAll("main .table")].map(Tables.of).filter(Boolean);
    return [focused, ...found.filter(isInView)].find((table) => table && isWanted(table));
  };

  // A key that no table can act on is left to whoever else wants it.
  const onTable = (act, isWanted) => () => {
    const table = current(isWanted);
    return table ? act(table) : false;
  };
  const onRow = (act) => onTable((table) => act(table, table.current), (table) => table.rows.shown.includes(table.current));

  page.press("j", "next row of a table", onTable((table) => table.step(1)));
  page.press("k", "row above", onTable((table) => table.step(-1)));
  page.press("Enter", "open or close the row", onRow((table, item) => (
    item.opened && document.activeElement === item.row ? table.open(item, !item.isOpen) : false
  )));
  page.press("c", "copy the row", onRow((table, item) => { page.copy(table.write("plain", [item]), "row copied"); }));
  page.press("x", "hide the row", onRow((table, item) => table.hide(item)));
  page.press("/", "search in a table", onTable((table) => table.tools.search.focus(), (table) => table.tools));
})();
