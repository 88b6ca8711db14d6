"use strict";
// A chart as a file of its own: its style is written into it, since a file has no page around it.

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font-family", "font-size", "font-weight"];
const PNG_SCALE = 2;

/** The text of an SVG file that shows what the chart shows, under a title. */
function chartAsSvg(chart, title) {
  const shown = chart.host.querySelector("svg");
  const copy = shown.cloneNode(true);
  const originals = [shown, ...shown.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of KEPT) node.setAttribute(name, style.getPropertyValue(name));
    node.removeAttribute("class");
  });
  for (const marks of [...copy.children].filter((_, i) => originals[0].children[i].classList.contains("marks"))) marks.remove();
  const [width, height, above] = [shown.clientWidth, shown.clientHeight, 30];
  const page = getComputedStyle(chart.host.closest(".card"));
  const ink = getComputedStyle(chart.host);
  const text = svg("text", { x: MARGIN.left, y: 20, fill: ink.color, "font-family": ink.fontFamily, "font-size": 14, "font-weight": 600 }, title);
  copy.setAttribute("y", above);
  const whole = svg("svg", { xmlns: SVG, width, height: height + above, viewBox: `0 0 ${width} ${height + above}` });
  whole.append(svg("rect", { width: "100%", height: "100%", fill: page.backgroundColor }), text, copy);
  return new XMLSerializer().serializeToString(whole);
}

function fileName(name, ending) {
  return `${name.replace(/[^\w.-]+/g, "_").slice(0, 80) || "run"}.${ending}`;
}

function download(address, name) {
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

function saveSvg(chart, title, name) {
  const address = URL.createObjectURL(new Blob([chartAsSvg(chart, title)], { type: "image/svg+xml" }));
  download(address, fileName(name, "svg"));
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function savePng(chart, title, name) {
  const drawing = chartAsSvg(chart, title);
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing)}`;
  await picture.decode();
  const canvas = el("canvas", { width: picture.width * PNG_SCALE, height: picture.height * PNG_SCALE });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const address = URL.createObjectURL(blob);
  download(address, fileName(name, "png"));
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
