// Package program knows, as data, what common programs do with their arguments: which ones run another program, execute code in an
// argument, or read, write and delete the files that are named. It's pure, and it never runs or looks up anything.
//
// Inspect looks at one program. What that program runs in turn is in the Calls and Scripts of its Effects, for the next Inspect or for the
// shell's parser. The programs are in tables/*.txt, one a line, which table.go reads; roles.go has what the values of their options and
// their operands mean. A program that isn't in the tables has no effects: the rules about commands decide on it, and the kernel on what it
// does.
//
// The author of a call is the attacker: a model that obeys what it has read. So
//   - where a program can run another, its parser here follows the program's own: where options end, which ones take a value, bundled
//     letters, and the abbreviations of long options (a prefix of an option that runs programs counts as it, also if it's ambiguous);
//   - an option that isn't listed doesn't hide what follows it: where the position decides which program runs, it's unclear; elsewhere
//     every later word that could be an option that runs programs counts as one, also after "--";
//   - a word that isn't known is unclear where it can change what is executed: as a command, as code, or where it may be an option of a
//     program that has options which run programs. Elsewhere it has no effect here. The prefix of a word that may be several is taken as
//     that of each (the names that a pattern matches), unless its source has an expansion, whose value may be split;
//   - a command line in one argument that the program splits by rules of its own is split here only if it has no character that such
//     rules could treat as special; else it's unclear.
//
// Files are those that certainly are used if the program runs and does what it's asked for. Their names are as the operands have them:
// where the target of cp, mv, ln or install is a directory, the file that is written is the entry in it with the base name of each source.
// That a target is a directory isn't known here, so who decides on a Write looks: if the target exists and is a directory, the decision
// is about those entries. A word that isn't known, or a pattern, is some file in the folder with which it begins, or in the one in which the
// program runs; who decides leaves out the call's own folder, of which that says nothing. What find finds is such files of its starting points.
package program
