// How the search orders its results: titles before words, and the papers' chapters before pages of reference.
"use strict";
var Scorer = {
  score: ([page, , , , score]) => score + (page.includes("/") ? 1 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
