// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// Copies what is shown as Markdown or as plain text.
(() => {
  // How long a message is shown, in milliseconds.
  const READING_TIME = 5000;

  const said = document.getElementById("said");
  let clearing = 0;

  // Shows a message, also to screen readers. A repeated message is announced again.
  page.say = (words) => {
    clearTimeout(clearing);
    said.textContent = "";
    setTimeout(() => { said.textContent = words; });
    clearing = setTimeout(() => { said.textContent = ""; }, READING_TIME);
  };

  // A page from disk or from an unencrypted server may not have the clipboard API.
  const copyBySelection = (text) => {
    const focused = document.activeElement;
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return isDone;
  };
  page.copy = async (text, words = "copied") => {
    let isDone = false;
    try {
      await navigator.clipboard.writeText(text);
      isDone = true;
    } catch {
      isDone = copyBySelection(text);
    }
    page.say(isDone ? words : "Copy failed: the browser denies access to the clipboard.");
    return isDone;
  };

  const isShown = (element) => element.checkVisibility() && !element.matches("script, button, input, select");
  const words = (element) => element.innerText.replace(/\s+/g, " ").trim();
  const cells = (row) => [...row.cells].filter(isShown).map(words);

  const styles = {
    markdown: {
      heading: (text) => `## ${text}`,
      item: (text, mark) => `${mark} ${text}`,
      plain: (text) => text.replace(/[\\`*_<>|[\]]/g, "\\$&"),
      strong: (text) => `**${text}**`,
      code: (text) => `\`\`\`\n${text}\n\`\`\``,
      table: (rows) => {
        const lines = rows.map((row) => `| ${row.join(" | ")} |`);
        lines.splice(1, 0, `|${" --- |".repeat(rows[0].length)}`);
        return lines.join("\n");
      },
    },
    text: {
      heading: (text) => text,
      item: (text, mark) => `${mark} ${text}`,
      plain: (text) => text,
      strong: (text) => text,
      code: (text) => text,
      table: (rows) => {
        const widths = rows[0].map((_, place) => Math.max(...rows.map((row) => (row[place] ?? "").length)));
        return rows.map((row) => row.map((text, place) => text.padEnd(widths[place])).join("  ").trimEnd()).join("\n");
      },
    },
  };

  const drawTable = (table, style) => {
    const rows = [...table.rows].filter(isShown).map((row) => cells(row).map(style.plain));
    const caption = table.caption ? `${style.strong(style.plain(words(table.caption)))}\n\n` : "";
    return rows.length ? caption + style.table(rows) : caption;
  };

  // Links to the evidence do not work in a mail.
  const itemWords = (item) => [...item.childNodes]
    .filter((part) => !part.matches?.(".evidence"))
    .map((part) => part.textContent.trim())
    .join(" ").replace(/\s+/g, " ").trim();
  const drawList = (list, style) => [...list.children].filter(isShown)
    .map((item, place) => style.item(style.plain(itemWords(item)), list.matches("ol") ? `${place + 1}.` : "-"))
    .join("\n");

  const drawHeadline = (line, style) => {
    const [word, ...rest] = [...line.children].map(words).map(style.plain);
    return `${style.strong(word)}: ${rest.join(" ")}`;
  };

  // The blocks of text of an element, in order.
  const drawPart = (part, style) => {
    if (!isShown(part)) {
      return [];
    }
    const kinds = [
      ["h2, h3, h4", () => style.heading(style.plain(words(part)))],
      [".headline", () => drawHeadline(part, style)],
      ["table", () => drawTable(part, style)],
      ["ul, ol", () => drawList(part, style)],
      ["pre", () => style.code(part.innerText.trimEnd())],
      ["p, figcaption, dt, dd", () => style.plain(words(part))],
    ];
    const kind = kinds.find(([selector]) => part.matches(selector));
    return kind ? [kind[1]()] : [...part.children].flatMap((inner) => drawPart(inner, style));
  };

  // Returns what an element shows now, as "markdown" or "text".
  page.write = (element, name) => [...element.children]
    .flatMap((part) => drawPart(part, styles[name]))
    .filter(Boolean)
    .join("\n\n");

  const summarise = (name) => {
    const sides = [...document.querySelectorAll(".top .side")].map(words).join(name === "markdown" ? ", " : "\n");
    return `${sides}\n\n${page.write(document.querySelector("main > section"), name)}\n`;
  };
  const copyAs = (id, make, said) => {
    document.getElementById(id).addEventListener("click", () => page.copy(make(), said));
  };
  // The brief text of the command line; a page of a single analysis has none.
  const brief = () => document.getElementById("brief")?.content.textContent ?? summarise("markdown");
  copyAs("copy-markdown", brief, "Verdict copied as Markdown.");
  copyAs("copy-text", () => summarise("text"), "Verdict copied as plain text.");
  const lkml = document.getElementById("lkml");
  if (lkml) {
    copyAs("copy-lkml", () => lkml.content.textContent, "Result copied as plain text for a mail.");
  }
  copyAs("copy-address", page.addressHere, "Link copied.");
})();
