// What arithmatex marks is mathematics, and nothing else is.
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
  svg: { fontCache: "global" },
  options: { ignoreHtmlClass: ".*", processHtmlClass: "arithmatex" },
};
