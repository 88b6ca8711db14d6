"use strict";
// Elements from plain values. Whatever comes from a log only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

function withParts(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; attributes that are functions listen to the event of that name. */
function el(tag, attributes = {}, ...children) {
  return withParts(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function svg(tag, attributes = {}, ...children) {
  return withParts(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

/** Set a text where it differs: what stays the same is not touched, so that selections live on. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A name that gives way in its middle, since runs differ in their beginnings and ends. */
const ENDING = 14;
function nameParts(name) {
  const cut = name.length > ENDING + 8 ? name.length - ENDING : name.length;
  return [el("span", { class: "start" }, name.slice(0, cut)), el("span", { class: "ending" }, name.slice(cut))];
}

/** The mark of a verdict: a shape as well as a colour. */
const SHAPES = {
  leading: "M6 .8l1.6 3.3 3.6.5-2.6 2.5.6 3.6L6 9 2.8 10.7l.6-3.6L.8 4.6l3.6-.5z",
  running: "M2.5 1.5v9l7.5-4.5z",
  finished: "M1.8 1.8h8.4v8.4H1.8z",
  hopeless: "M1 3h10L6 10.5z",
  diverged: "M2.6 1.2L6 4.6l3.4-3.4 1.4 1.4L7.4 6l3.4 3.4-1.4 1.4L6 7.4l-3.4 3.4-1.4-1.4L4.6 6 1.2 2.6z",
  waiting: "M1 6a1.3 1.3 0 1 0 2.6 0a1.3 1.3 0 1 0-2.6 0M4.7 6a1.3 1.3 0 1 0 2.6 0a1.3 1.3 0 1 0-2.6 0M8.4 6a1.3 1.3 0 1 0 2.6 0a1.3 1.3 0 1 0-2.6 0",
  unusable: "M5 1h2l-.3 6.4H5.3zM4.9 9.6a1.1 1.1 0 1 0 2.2 0a1.1 1.1 0 1 0-2.2 0",
};
const VERDICTS = Object.keys(SHAPES);

function verdictMark(verdict) {
  const path = svg("path", { d: SHAPES[verdict] });
  return svg("svg", { class: `mark ${verdict}`, viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" }, path);
}

function verdictChip(verdict) {
  return el("span", { class: `verdict ${verdict}` }, verdictMark(verdict), verdict);
}
