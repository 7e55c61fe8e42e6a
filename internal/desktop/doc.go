// Package desktop shows notices about approvals on the user's desktop. It only informs: nothing is decided there, and no failure is
// reported. The D-Bus client is in another program, toolguard-ship, so that this one starts fast.
package desktop
