// Package ownprogram finds the programs that toolguard starts and that are installed with it.
package ownprogram
