// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// A table as Markdown, plain text, CSV and JSON, to copy or to save.
const TableCopy = (() => {
  // A line of a mail that is quoted twice still has 80 columns.
  const MAIL_COLUMNS = 78;
  // Names up to this length are never cut, even if the mail becomes too wide.
  const LONGEST_WHOLE_WORD = 36;
  const PLAIN_NUMBER = /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;

  const sides = () => [...document.querySelectorAll(".top .side .label")].map((side) => side.textContent.trim().replace(/\s+/g, " "));

  // What is copied: rows as they are shown; sorted rows include the name of their group.
  const read = (rows, caption, items = rows.shown) => {
    const lines = [];
    let heading = null;
    for (const item of items) {
      if (!rows.sorted && item.heading !== heading) {
        heading = item.heading;
        lines.push({ kind: "heading", text: item.group });
      }
      const [name, ...others] = item.texts;
      lines.push({ kind: "row", cells: [rows.sorted && item.group ? `${item.group}: ${name}` : name, ...others] });
      item.noteTexts.forEach((text) => lines.push({ kind: "note", text }));
    }
    return { caption, sides: sides(), columns: rows.columns, items, lines };
  };

  // What Markdown would read as markup; an underscore within a word is none.
  const MARKUP = /[\\`*<>[\]|~&]|(?<![a-z0-9])_|_(?![a-z0-9])/gi;
  const escapeMarkdown = (text) => text.replace(MARKUP, "\\$&").replace(/\s+/g, " ");

  const markdown = ({ caption, sides: labels, columns, lines }) => {
    const row = (cells) => `| ${cells.map(escapeMarkdown).join(" | ")} |`;
    const spanning = (text) => `| ${text} |${" |".repeat(columns.length - 1)}`;
    const drawn = lines.map((line) => {
      if (line.kind === "row") {
        return row(line.cells);
      }
      const mark = line.kind === "heading" ? "**" : "*";
      return spanning(`${mark}${escapeMarkdown(line.text)}${mark}`);
    });
    const rule = `|${columns.map((column) => (column.isRight ? "--:" : ":--")).join("|")}|`;
    const head = [`**${escapeMarkdown(caption)}**`, labels.map(escapeMarkdown).join(", ")].filter(Boolean);
    return [head.join("  \n"), "", row(columns.map((column) => column.title)), rule, ...drawn, ""].join("\n");
  };

  // Letters as a terminal draws them: combining marks take no column, wide letters and emoji two.
  const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
  const PLAIN = /^[ -~]*$/;
  const letters = new Intl.Segmenter("en");
  const lettersOf = (text) => [...letters.segment(text)].map(({ segment }) => segment);
  const widthOf = (text) => (PLAIN.test(text)
    ? text.length
    : lettersOf(text).reduce((sum, letter) => sum + (WIDE.test(letter) ? 2 : 1), 0));

  // Splits a word into pieces that fit a width.
  const cut = (word, width) => {
    if (widthOf(word) <= width) {
      return [word];
    }
    const pieces = [""];
    for (const letter of lettersOf(word)) {
      if (pieces.at(-1) && widthOf(pieces.at(-1) + letter) > width) {
        pieces.push("");
      }
      pieces[pieces.length - 1] += letter;
    }
    return pieces;
  };

  // Wraps words to a width; longer words are cut.
  const wrap = (text, width) => {
    const lines = [""];
    for (const word of text.split(/\s+/).filter(Boolean).flatMap((one) => cut(one, width))) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (widthOf(longer) <= width) {
        lines[lines.length - 1] = longer;
      } else {
        lines.push(word);
      }
    }
    return lines;
  };

  const longestWord = (text) => Math.max(...text.split(/\s+/).map(widthOf));

  // Numbers are never wrapped; the widest text column shrinks until a row fits into a mail.
  const columnWidths = (columns, rows) => {
    const widest = (measure, place) => rows.reduce((most, cells) => Math.max(most, measure(cells[place])), 0);
    const titles = columns.map((column) => longestWord(column.title));
    const widths = titles.map((title, place) => Math.max(title, widest(widthOf, place)));
    const least = titles.map((title, place) => (columns[place].isRight
      ? widths[place]
      : Math.max(title, Math.min(LONGEST_WHOLE_WORD, widest(longestWord, place)))));
    const total = () => widths.reduce((sum, width) => sum + width + 2, -2);
    const spare = (place) => (widths[place] > least[place] ? widths[place] : 0);
    while (total() > MAIL_COLUMNS) {
      const place = columns.reduce((best, _, one) => (spare(one) > spare(best) ? one : best), 0);
      if (spare(place) === 0) {
        break;
      }
      widths[place] -= 1;
    }
    return widths;
  };

  const plain = ({ caption, sides: labels, columns, lines }) => {
    const titles = columns.map((column) => column.title);
    const widths = columnWidths(columns, lines.filter((line) => line.kind === "row").map((line) => line.cells));
    const row = (cells) => {
      const wrapped = cells.map((text, place) => wrap(text, widths[place]));
      const pad = (text, place) => {
        const room = " ".repeat(Math.max(0, widths[place] - widthOf(text)));
        return columns[place].isRight ? room + text : text + room;
      };
      const height = Math.max(...wrapped.map((some) => some.length));
      const level = (number) => wrapped.map((some, place) => pad(some[number] ?? "", place)).join("  ").trimEnd();
      return [...Array(height).keys()].map(level);
    };
    const indented = (text) => wrap(text, MAIL_COLUMNS - 2).map((one) => `  ${one}`);
    const draw = { row: (line) => row(line.cells), heading: (line) => wrap(line.text, MAIL_COLUMNS), note: (line) => indented(line.text) };
    const head = [caption, labels.join(", ")].filter(Boolean).flatMap((text) => wrap(text, MAIL_COLUMNS));
    return [...head, "", ...row(titles), ...lines.flatMap((line) => draw[line.kind](line)), ""].join("\n");
  };

  // A spreadsheet takes such text for a formula, unless it is a number.
  const disarm = (text) => (/^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.,]+(?:e[+-]?\d+)?(?: ?%)?$/i.test(text) ? `'${text}` : text);

  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  const hasGroups = (items) => items.some((item) => item.group);
  const hasNotes = (items) => items.some((item) => item.notes.length);

  const csv = ({ columns, items }) => {
    const record = (group, cells, notes) => [
      ...(hasGroups(items) ? [group] : []),
      ...cells.map((text) => (TableRows.MISSING.has(text) ? "" : text)),
      ...(hasNotes(items) ? [notes] : []),
    ].map((text) => quote(disarm(text))).join(",");
    const head = record("group", columns.map((column) => column.title), "notes");
    const body = items.map((item) => record(item.group, item.texts, item.noteTexts.join("; ")));
    return [head, ...body, ""].join("\r\n");
  };

  // Titles as keys; repeated titles get a number.
  const keysOf = (columns) => {
    const seen = new Map([["group", 1], ["notes", 1]]);
    return columns.map(({ title }) => {
      const count = (seen.get(title) ?? 0) + 1;
      seen.set(title, count);
      return count === 1 ? title : `${title} (${count})`;
    });
  };

  const json = ({ caption, sides: labels, columns, items }) => {
    const keys = keysOf(columns);
    const value = (item, place) => {
      const { said, text, isMissing } = item.key(place);
      if (isMissing || Number.isFinite(said)) {
        return isMissing ? null : said;
      }
      return columns[place].isRight && PLAIN_NUMBER.test(text) ? Number(text) : text;
    };
    const rows = items.map((item) => Object.fromEntries([
      ...(item.group ? [["group", item.group]] : []),
      ...keys.map((key, place) => [key, value(item, place)]),
      ...(item.notes.length ? [["notes", item.noteTexts]] : []),
    ]));
    return `${JSON.stringify({ caption, sides: labels, rows }, null, 2)}\n`;
  };

  return { read, formats: { markdown, plain, csv, json } };
})();
