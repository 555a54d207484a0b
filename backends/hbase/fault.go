package hbase

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tsuna/gohbase/region"
)

// faultKind is how a call failed, and so what the next call can expect.
type faultKind int

const (
	refused faultKind = iota // answered with an exception, which a repeated call would get again
	busy                     // answered: not now
	moved                    // answered: the region is not on this server
	lost                     // not answered: the connection was lost, or could not be made
)

// fault is the error of a call that a server did not execute, or did not confirm.
type fault struct {
	kind   faultKind
	server string
	what   string
}

func (f *fault) Error() string {
	switch f.kind {
	case busy:
		return fmt.Sprintf("server %s is busy: %s", f.server, f.what)
	case moved:
		return fmt.Sprintf("server %s does not serve the region (any more): %s", f.server, f.what)
	case lost:
		return fmt.Sprintf("server %s is not reachable: %s", f.server, f.what)
	}
	if f.denies() {
		return fmt.Sprintf("server %s does not permit it; in the HBase shell, grant the user salectl RWC on the namespace of the table: %s", f.server, f.what)
	}
	return fmt.Sprintf("server %s refused: %s", f.server, f.what)
}

// Is reports that an access denial is fs.ErrPermission, after which a retry is useless.
func (f *fault) Is(target error) bool { return target == fs.ErrPermission && f.denies() }

func (f *fault) denies() bool {
	return f.kind == refused && strings.HasPrefix(f.what+": ", "AccessDeniedException: ")
}

// faultOf converts an error of a region client.
func faultOf(server string, err error) *fault {
	f := &fault{server: server, what: firstLine(err)}
	switch err.(type) {
	case region.NotServingRegionError:
		f.kind = moved
	case region.ServerError:
		f.kind = lost
	case region.RetryableError:
		f.kind = busy
	}
	return f
}

// isFault reports whether err is a fault of one of the kinds.
func isFault(err error, kinds ...faultKind) bool {
	var f *fault
	return errors.As(err, &f) && slices.Contains(kinds, f.kind)
}

// isException reports whether err is the Java exception of this class, named without its
// package.
func isException(err error, class string) bool {
	var f *fault
	return errors.As(err, &f) && strings.HasPrefix(f.what+": ", class+": ")
}

// javaException precedes a Java exception in gohbase's errors: its class, and on the next line
// its stack trace.
const javaException = "HBase Java exception "

// firstLine returns the text of err without Java stack trace, package names, and the names of
// gohbase's types.
func firstLine(err error) string {
	if err == region.ErrClientClosed { // it is never wrapped
		return "the connection was lost"
	}
	text := err.Error()
	_, trace, ok := strings.Cut(text, javaException)
	if !ok {
		return strings.TrimPrefix(text, "region.ServerError: ")
	}
	class, trace, _ := strings.Cut(trace, ":\n")
	message, _, _ := strings.Cut(trace, "\n")
	message = strings.TrimPrefix(strings.TrimPrefix(message, class), ": ")
	return strings.TrimSuffix(className(class)+": "+message, ": ")
}

// className returns the name of a Java class without its package.
func className(class string) string { return class[strings.LastIndex(class, ".")+1:] }
