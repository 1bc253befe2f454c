"use strict";
// The numbers of a flame graph: the tree of one event, what its frames take, and how that is said.
// flame.js draws it. Names are text of strangers: nothing here or there makes markup of them.
const FlameTree = (() => {
  const ROOT = -1;
  const REMAINDER = -2;

  const digits = (value) => {
    const size = Math.abs(value);
    if (size === 0) {
      return "0";
    }
    return size >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toFixed(size >= 1 ? 2 : size >= 0.01 ? 3 : 5);
  };
  const number = (value) => (value === null ? "?" : digits(value));
  const signed = (value) => (value < 0 ? "\u2212" : value > 0 ? "+" : "") + digits(Math.abs(value));

  class Tree {
    constructor(data) {
      this.data = data;
      this.sides = data.labels.length;
      this.children = data.parent.map(() => []);
      data.parent.forEach((parent, frame) => parent >= 0 && this.children[parent].push(frame));
      this.depth = [];
      data.parent.forEach((parent, frame) => { this.depth[frame] = parent < 0 ? 0 : this.depth[parent] + 1; });
      this.use(data.measures[0]);
    }

    use(measure) {
      this.measure = measure;
      this.largest = null;
      this.unit = measure.measure === "share" ? "%" : `${this.data.unit} per ${measure.operation}`;
      const { base, new: other } = measure.inclusive;
      const zero = (values) => values.map((value) => value ?? 0);
      this.widths = { base: zero(base) };
      if (other) {
        this.widths.new = zero(other);
        // Half of both, so that the frames of a caller add up and what vanished has a width.
        this.widths.diff = this.widths.base.map((value, frame) => (value + this.widths.new[frame]) / 2);
      }
      const order = this.widths.diff ?? this.widths.base;
      this.children.forEach((some) => some.sort((a, b) => this.isRemainder(a) - this.isRemainder(b) || order[b] - order[a]));
      this.changed = new Set(measure.inclusive.changed ?? []);
      this.changedNames = new Set(measure.functions.changed ?? []);
      this.hasIntervals = (measure.inclusive.q ?? []).some((q) => q !== null);
    }

    change(frame, extent = "inclusive") {
      const { base, new: other } = this.measure[extent];
      return other && base[frame] !== null && other[frame] !== null ? other[frame] - base[frame] : null;
    }

    // The change that gives a frame its colour, null inside of noise: the frame's with what it
    // calls, or, where its function changed on all paths together, its part of that.
    shownChange(frame, shownAll) {
      if (shownAll || this.changed.has(frame)) {
        return this.change(frame);
      }
      const name = this.data.name[frame];
      const own = this.change(frame, "self");
      return this.changedNames.has(name) && own * this.change(name, "functions") > 0 ? own : null;
    }

    // How much colour a change gets, in per cent; the largest one gets the most.
    heat(change) {
      const size = (one) => Math.abs(this.change(one) ?? 0);
      this.largest ??= this.data.parent.reduce((most, _, one) => Math.max(most, size(one)), 0) || 1;
      return 25 + 35 * Math.sqrt(Math.abs(change) / this.largest);
    }

    isRemainder(frame) {
      return this.data.name[frame] === REMAINDER;
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

    // The numbers of one frame, or of one name on all paths, as a sentence.
    says(frame, extent) {
      const { base, new: other, low, high, q } = this.measure[extent];
      if (!other) {
        return `${number(base[frame])} ${this.unit}`;
      }
      const change = this.change(frame, extent);
      const values = `base ${number(base[frame])}, new ${number(other[frame])} ${this.unit}`;
      const unit = this.unit === "%" ? "pp" : this.unit;
      const changed = change === null ? "change not known" : `change ${signed(change)} ${unit}`;
      const interval = low[frame] === null
        ? "no interval"
        : `95 % interval ${signed(low[frame])} to ${signed(high[frame])}`;
      const decided = q[frame] === null ? "" : `, q ${q[frame] < 0.001 ? "< 0.001" : q[frame].toFixed(3)}`;
      return `${values}; ${changed} (${interval}${decided})`;
    }

    // The frames that have a text in their names.
    find(wanted) {
      const fits = (frame) => this.data.name[frame] >= 0 && this.name(frame).toLowerCase().includes(wanted);
      return new Set([...this.data.parent.keys()].filter(fits));
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

    saysFound(matches) {
      const sums = this.sum(matches);
      const count = `${matches.size} frame${matches.size === 1 ? "" : "s"}`;
      const values = this.sides > 1 ? `base ${number(sums.base)}, new ${number(sums.new)}` : number(sums.base);
      return `${count}: ${values} ${this.unit} together`;
    }

    // Sums of the outermost matches: what they called is in them already.
    sum(matches) {
      const sums = { base: 0, new: 0 };
      const covered = [];
      this.data.parent.forEach((parent, frame) => {
        covered[frame] = parent >= 0 && (covered[parent] || matches.has(parent));
        if (matches.has(frame) && !covered[frame]) {
          sums.base += this.widths.base[frame];
          sums.new += this.widths.new?.[frame] ?? 0;
        }
      });
      return sums;
    }
  }

  return Tree;
})();
