package hbase

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tsuna/gohbase/region"
)

// faultKind says what a failed call means for the next one.
type faultKind int

const (
	refused faultKind = iota // answered with an exception; the same again would get it again
	busy                     // answered: not now
	moved                    // answered: the region is not here
	lost                     // not answered; the connection is gone, or there was none
)

// fault is a call that a server did not do, or did not say that it did.
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

// Is says that what a server does not permit is fs.ErrPermission: to ask again does not help.
func (f *fault) Is(target error) bool { return target == fs.ErrPermission && f.denies() }

func (f *fault) denies() bool {
	return f.kind == refused && strings.HasPrefix(f.what+": ", "AccessDeniedException: ")
}

// faultOf translates an error of a region client.
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

// isFault reports whether err is one of the kinds.
func isFault(err error, kinds ...faultKind) bool {
	var f *fault
	if !errors.As(err, &f) {
		return false
	}
	for _, k := range kinds {
		if f.kind == k {
			return true
		}
	}
	return false
}

// isException reports whether err is the Java exception of this class, without its
// package.
func isException(err error, class string) bool {
	var f *fault
	return errors.As(err, &f) && strings.HasPrefix(f.what+": ", class+": ")
}

// javaException is how gohbase introduces a Java exception: its class, and on
// the next line its stack trace.
const javaException = "HBase Java exception "

// firstLine is what err says, without a Java stack trace, packages, and the
// names of gohbase's types.
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

// className is the name of a Java class without its package.
func className(class string) string { return class[strings.LastIndex(class, ".")+1:] }
