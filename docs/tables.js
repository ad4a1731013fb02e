// Code and tables. Short words of code stay on one line, and long ones break at their underscores, slashes and colons. On narrow
// screens site.css shows each row of a table as a card, whose lines begin with the names of their columns.
// Codes, and the names in the headings of the reference.
const CODES = ".md-typeset :is(p, li, td) code, .md-typeset th, .md-typeset th code, .md-typeset .doc-object-name"
const breakable = (code, longest) => {
  if (code.children.length) return
  code.replaceChildren(...code.innerText.split(/( )/).flatMap(word => {
    if (word.length > longest) return word.split(/(?<=[_/.:=,])/).flatMap(part => [part, document.createElement("wbr")])
    const whole = document.createElement("span")
    whole.className = "whole"
    whole.textContent = word
    return word === " " ? [word] : [whole]
  }))
}
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll(CODES))
    breakable(code, code.closest("td:first-child, p, li") ? 24 : 14)
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map(cell => cell.innerText.trim())
    if (names.length > 5) table.dataset.matrix = ""
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, index) => {
        if (names.length > 2 && index) cell.dataset.name = names[index]
      })
    if (names.length > 1 && names.length < 7) table.dataset.columns = names.length
  }
})
