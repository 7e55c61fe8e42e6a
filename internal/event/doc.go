// Package event defines what toolguard reports: denials, executed programs, the start and end of sessions, and lost events.
//
// Every producer fills an Event and writes it to a Queue, which never blocks. A Writer numbers the events and writes one line for
// each. The formats are OCSF 1.9 and 1.8 and ECS 9.4, both JSON, and text for people. docs/events.md describes them field by field.
// Parse reads an event from its OCSF line.
//
// Numbers are gapless within one stream. With the boot id, the stream's random part of the uid and the sequence, a consumer
// detects missing events and drops duplicates.
//
// The confined process chooses most strings in an event: names of files, programs and processes, and arguments. JSON stays valid
// whatever they contain: bytes that aren't UTF-8 become U+FFFD, and the exact target is added in hexadecimal. Text has only
// printable characters unescaped, so no name can move a terminal's cursor, start a line of its own or change the writing
// direction. Values that look like secrets are masked before an event is rendered.
package event
