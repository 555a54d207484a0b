//go:build !unix

package redis

// listenAgain cannot shorten the queue here; newBlackHole then finds that
// there is none.
func listenAgain(uintptr) error { return nil }
