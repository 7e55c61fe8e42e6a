// Package ask is what people and programs see of approvals, from outside the process that serves a session's calls: lists of approvals,
// decisions, requests for grants, and how an approval is shown.
//
// Everything in an approval comes from a confined process, which is the attacker: a person must see what is asked for, and nothing else.
// Escape and Quote therefore escape everything that can change how other text looks, and Rows warns of letters that look like others.
package ask
