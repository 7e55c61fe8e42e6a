// Package event is what toolguard tells the world: denials, execs, sessions, and what couldn't be told.
//
// Every producer fills the same Event and gives it to a Queue, which nobody waits for; a Writer numbers it and writes one line. Renderings are OCSF 1.9, or 1.8, and ECS 9.4 JSON for
// machines, and text for people. docs/events.md describes them field by field. Parse has an event again from its OCSF line.
//
// Numbers are gapless within one stream: the boot id, the stream's random part of the uid and the sequence together let a
// consumer see what is missing and drop what came twice.
//
// Most strings in an event were chosen by the guarded: names of files, programs and processes, arguments. JSON stays valid whatever they hold;
// bytes that aren't UTF-8 become U+FFFD there, and the exact target is added in hexadecimal. In text nothing but
// printable characters is written as it is, so no name can move a terminal's cursor, start a line of its own or turn
// the writing direction. Values that look like secrets are masked before an event is rendered.
package event
