// Package landlock turns a compiled policy into Landlock rulesets.
package landlock
