// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
// The numbers of a flame graph: the tree of one event, the times of its frames, and their texts.
// flames.js draws it. Names are untrusted text and never become markup.
const FlameTree = (() => {
  const ROOT = -1;
  const REMAINDER = -2;
  // Strength of the colour of the smallest and the largest change, in percent; with more, text would
  // have a contrast below 4.5:1 in dark colours (WCAG 2, 1.4.3).
  const FAINTEST = 20;
  const STRONGEST = 48;

  // Letters of a frame in an address: a template's instance may have a thousand.
  const LONGEST_KEY = 60;

  const digits = (value) => {
    const size = Math.abs(value);
    if (size === 0) {
      return "0";
    }
    return size >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toFixed(size >= 1 ? 2 : size >= 0.01 ? 3 : 5);
  };
  const number = (value) => (value === null ? "?" : digits(value));
  const signed = (value) => (value < 0 ? "\u2212" : value > 0 ? "+" : "") + digits(Math.abs(value));
  const zero = (values) => values.map((value) => value ?? 0);

  const fits = (name, text) => {
    const whole = text.startsWith("=") ? text.slice(1).trim() : null;
    return whole === null ? name.includes(text) : name === whole || name.startsWith(`${whole}.`);
  };

  class Tree {
    constructor(data, measure) {
      this.data = data;
      this.sides = data.labels.length;
      this.children = data.parent.map(() => []);
      data.parent.forEach((parent, frame) => parent >= 0 && this.children[parent].push(frame));
      this.keys = this.makeKeys();
      this.otherNames = new Set(data.others);
      this.depth = [];
      data.parent.forEach((parent, frame) => { this.depth[frame] = parent < 0 ? 0 : this.depth[parent] + 1; });
      this.use(measure);
    }

    use(measure) {
      this.measure = measure;
      this.largest = null;
      this.isShare = measure.measure === "share";
      this.unit = this.isShare ? "%" : `${this.data.unit} per ${measure.operation}`;
      // The unit follows the last value only, but a percent sign follows both values.
      this.percent = this.isShare ? "%" : "";
      this.suffix = this.percent || ` ${this.unit}`;
      this.changeUnit = this.isShare ? "pp" : this.unit;
      const { base, new: other } = measure.inclusive;
      this.widths = { base: zero(base) };
      if (other) {
        this.widths.new = zero(other);
        // Half of both, so that the frames of a caller add up and what vanished has a width.
        this.widths.diff = this.widths.base.map((value, frame) => (value + this.widths.new[frame]) / 2);
      }
      this.order = this.widths.diff ?? this.widths.base;
      this.children.forEach((some) => some.sort((a, b) => this.isRemainder(a) - this.isRemainder(b) || this.order[b] - this.order[a]));
      this.changed = new Set(measure.changed);
      this.changedWithCallees = new Set(measure.inclusive.changed ?? []);
      this.changedNames = new Set(measure.functions.changed ?? []);
      this.hasIntervals = (measure.inclusive.low ?? []).some((low) => low !== null);
    }

    // The key of each frame among the callees of its caller, for addresses: its name, with a number
    // if it is not unique.
    makeKeys() {
      const seen = new Map();
      return this.data.parent.map((parent, frame) => {
        const name = this.isRemainder(frame) ? "(rest)" : this.name(frame).slice(0, LONGEST_KEY);
        const count = (seen.get(`${parent} ${name}`) ?? 0) + 1;
        seen.set(`${parent} ${name}`, count);
        return count > 1 ? `${name}#${count}` : name;
      });
    }

    // The frames from the outermost one to this, without the root.
    callersOf(frame) {
      const path = [];
      for (let one = frame; one > 0; one = this.data.parent[one]) {
        path.unshift(one);
      }
      return path;
    }

    pathOf(frame) {
      return this.callersOf(frame).map((one) => this.keys[one]);
    }

    // The frame at the end of a path, as far as this tree has it.
    findPath(path) {
      let frame = 0;
      for (const key of path) {
        const next = this.children[frame].find((child) => this.keys[child] === key);
        if (next === undefined) {
          break;
        }
        frame = next;
      }
      return frame;
    }

    change(frame, extent = "inclusive") {
      const { base, new: other } = this.measure[extent];
      return other && base[frame] !== null && other[frame] !== null ? other[frame] - base[frame] : null;
    }

    // The change that colours a frame, null if the report does not count the frame as changed: that of
    // the frame with its callees, or the frame's part of the change of its function.
    shownChange(frame, shownAll) {
      if (shownAll) {
        return this.change(frame);
      }
      return this.changed.has(frame) ? this.change(frame, this.changedWithCallees.has(frame) ? "inclusive" : "self") : null;
    }

    // The frames that changed significantly.
    coloured() {
      return [...this.changed];
    }

    // The strength of a change's colour, in percent; the largest change shown has the strongest.
    heat(change, shownAll) {
      const shown = shownAll ? [...this.data.parent.keys()] : this.coloured();
      this.largest ??= shown.reduce((most, one) => Math.max(most, Math.abs(this.shownChange(one, shownAll) ?? 0)), 0) || 1;
      return FAINTEST + (STRONGEST - FAINTEST) * Math.sqrt(Math.min(1, Math.abs(change) / this.largest));
    }

    isRemainder(frame) {
      return this.data.name[frame] === REMAINDER;
    }

    // Whether a frame is of a command other than the workload.
    isOther(frame) {
      const [outermost] = this.callersOf(frame);
      return outermost !== undefined && this.otherNames.has(this.data.name[outermost]);
    }

    isKernel(frame) {
      return this.data.names[this.data.name[frame]]?.kernel ?? false;
    }

    name(frame) {
      const place = this.data.name[frame];
      if (place === ROOT) {
        return this.data.event;
      }
      return place === REMAINDER ? `(${this.data.hidden[frame]} smaller frames)` : this.data.names[place].symbol;
    }

    dso(frame) {
      return this.data.names[this.data.name[frame]]?.dso ?? "";
    }

    // The numbers of one frame, or of one function on all paths, as text.
    says(frame, extent) {
      const { base, new: other } = this.measure[extent];
      if (!other) {
        return `${number(base[frame])}${this.suffix}`;
      }
      const change = this.change(frame, extent);
      const values = `base ${number(base[frame])}${this.percent}, new ${number(other[frame])}${this.suffix}`;
      const changed = change === null ? "change unknown" : `change ${signed(change)} ${this.changeUnit}`;
      return `${values}; ${changed} (${this.saysInterval(frame, extent)})`;
    }

    saysInterval(frame, extent) {
      const { low, high, q } = this.measure[extent];
      if (!low || low[frame] === null) {
        return "no CI";
      }
      const decided = !q || q[frame] === null ? "" : `, q ${q[frame] < 0.001 ? "< 0.001" : q[frame].toFixed(3)}`;
      return `95% CI [${signed(low[frame])}, ${signed(high[frame])}]${decided}`;
    }

    // The frames of each text that is searched for; texts have a | between. "=name" is a whole name,
    // without the suffix of a part or copy (.isra.0); any other text is a part of a name.
    findEach(wanted) {
      const texts = wanted.toLowerCase().split("|").map((text) => text.trim()).filter((text) => text.replace(/^=/, ""));
      const named = [...this.data.parent.keys()].filter((frame) => this.data.name[frame] >= 0);
      return texts.map((text) => new Set(named.filter((frame) => fits(this.name(frame).toLowerCase(), text))));
    }

    largestFirst(frames) {
      return [...frames].sort((a, b) => this.order[b] - this.order[a]);
    }

    // Frames from the left to the right of the graph, callers before what they call.
    inOrder(frames) {
      const wanted = new Set(frames);
      const found = [];
      const pending = [0];
      while (pending.length) {
        const frame = pending.pop();
        if (wanted.has(frame)) {
          found.push(frame);
        }
        pending.push(...[...this.children[frame]].reverse());
      }
      return found;
    }

    // Frames and all that called them.
    withCallers(frames) {
      const found = new Set();
      frames.forEach((frame) => {
        for (let one = frame; one >= 0 && !found.has(one); one = this.data.parent[one]) {
          found.add(one);
        }
      });
      return found;
    }

    // Lines about the frames that were found: the self time of their functions is what tables and
    // findings have, the time with callees is what is drawn.
    saysFound(matches) {
      const functions = new Set([...matches].map((frame) => this.data.name[frame]));
      const of = functions.size ? ` of ${functions.size} function${functions.size === 1 ? "" : "s"}` : "";
      const frames = `${matches.size} frame${matches.size === 1 ? "" : "s"}${of}`;
      const own = this.sumFunctions([...functions]);
      if (!functions.size) {
        return [frames];
      }
      return [
        `${frames}${own ? `; self, on all call paths: ${this.saysSums(own)}` : ""}`,
        `with callees, in these frames (smaller ones are merged): ${this.saysSums(this.sum(matches))}`,
      ];
    }

    saysSums(sums) {
      return this.sides > 1
        ? `base ${number(sums.base)}${this.percent}, new ${number(sums.new)}${this.suffix}, change ${signed(sums.new - sums.base)} ${this.changeUnit}`
        : `${number(sums.base)}${this.suffix}`;
    }

    // null if a value is unknown.
    sumFunctions(functions) {
      const { base, new: other } = this.measure.functions;
      const values = [base, other ?? []].map((side) => functions.map((name) => side?.[name] ?? null));
      const [olds, news] = this.sides > 1 ? values : [values[0], []];
      if ([...olds, ...news].includes(null)) {
        return null;
      }
      const sum = (some) => some.reduce((total, value) => total + value, 0);
      return { base: sum(olds), new: sum(news) };
    }

    // Sums of the outermost matches, which include their callees.
    sum(matches) {
      const sums = { base: 0, new: 0 };
      for (const frame of this.outermost(matches)) {
        sums.base += this.widths.base[frame];
        sums.new += this.widths.new?.[frame] ?? 0;
      }
      return sums;
    }

    outermost(matches) {
      const covered = [];
      return this.data.parent.flatMap((parent, frame) => {
        covered[frame] = parent >= 0 && (covered[parent] || matches.has(parent));
        return matches.has(frame) && !covered[frame] ? [frame] : [];
      });
    }

    // Callers and callees of a function, on all paths together, largest first. Recursive calls count
    // as neither.
    around(name) {
      const own = new Set([...this.data.parent.keys()].filter((frame) => this.data.name[frame] === name));
      const callers = this.outermost(own).map((frame) => [this.data.parent[frame], frame]);
      const callees = [...own].flatMap((frame) => this.children[frame]).filter((child) => !own.has(child));
      return { callers: this.group(callers), callees: this.group(callees.map((child) => [child, child])) };
    }

    // Sums of frames by the function of another one: pairs of (whose name, whose time).
    group(pairs) {
      const groups = new Map();
      for (const [named, timed] of pairs) {
        const key = this.data.name[named];
        const group = groups.get(key) ?? { name: key, label: key === REMAINDER ? "(smaller frames)" : this.name(named), base: 0, new: 0 };
        group.base += this.widths.base[timed];
        group.new += this.widths.new?.[timed] ?? 0;
        groups.set(key, group);
      }
      return [...groups.values()].sort((a, b) => b.base + b.new - a.base - a.new);
    }

    // The widest frame of a function.
    widest(name) {
      return this.data.name.reduce((best, one, frame) => (one === name && (best === 0 || this.order[frame] > this.order[best]) ? frame : best), 0);
    }
  }

  Tree.number = number;
  Tree.signed = signed;
  return Tree;
})();
