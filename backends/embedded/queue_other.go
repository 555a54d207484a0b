//go:build !unix

package embedded

// queue is not needed where one process alone uses a file at a time.
type queue struct{}

func openQueue(string) *queue        { return nil }
func (*queue) enter() (leave func()) { return func() {} }
func (*queue) close()                {}
