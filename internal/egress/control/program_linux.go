package control

import "github.com/toolguard/toolguard/internal/ownprogram"

// toolguardd is the program that egress is part of.
const toolguardd = "toolguardd"

// OpenProgram opens the program of egress for execution.
func OpenProgram() (int, error) { return ownprogram.Open(toolguardd, "decides about names") }
