package hbase

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/tsuna/gohbase/region"
)

func TestFaultsAreOneClearLine(t *testing.T) {
	trace := "org.apache.hadoop.hbase.DoNotRetryIOException: Cell[x] with size 11000123 exceeds limit of 10485760 bytes\n\tat org.apache.X.y(X.java:1)\n\tat org.apache.Z"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an exception": {
			fmt.Errorf("HBase Java exception org.apache.hadoop.hbase.DoNotRetryIOException:\n%s", trace),
			"server rs:1 refused: DoNotRetryIOException: Cell[x] with size 11000123 exceeds limit of 10485760 bytes",
		},
		"one without a message": {
			errors.New("HBase Java exception java.lang.NullPointerException:\njava.lang.NullPointerException\n\tat x"),
			"server rs:1 refused: NullPointerException",
		},
		"one inside another type": {
			errors.New("region.NotServingRegionError: HBase Java exception org.apache.hadoop.hbase.NotServingRegionException:\norg.apache.hadoop.hbase.NotServingRegionException: sales,,1 is not online\n\tat x"),
			"server rs:1 refused: NotServingRegionException: sales,,1 is not online",
		},
		"no right": {
			errors.New("HBase Java exception org.apache.hadoop.hbase.security.AccessDeniedException:\norg.apache.hadoop.hbase.security.AccessDeniedException: Insufficient permissions (user=salectl, scope=sales)\n\tat x"),
			"server rs:1 does not permit it; in the HBase shell, grant the user salectl RWC on the namespace of the table: AccessDeniedException: Insufficient permissions (user=salectl, scope=sales)",
		},
		"a closed connection": {region.ErrClientClosed, "server rs:1 is not reachable: the connection was lost"},
		"something else":      {errors.New("odd"), "server rs:1 refused: odd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := faultOf("rs:1", test.err).Error(); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// What a server does not permit is the same kind of error as in every store.
func TestDenials(t *testing.T) {
	const class = "AccessDeniedException"
	for f, want := range map[*fault]bool{
		{what: class + ": Insufficient permissions"}: true,
		{what: class}:                                            true,
		{kind: busy, what: class}:                                false,
		{what: "DoNotRetryIOException: not " + class}:            false,
		{kind: lost, what: "the connection was lost"}:            false,
		{what: class + "Indeed: of a class with a similar name"}: false,
	} {
		if got := errors.Is(fmt.Errorf("wrapped: %w", f), fs.ErrPermission); got != want {
			t.Errorf("%v is a fs.ErrPermission: %v, want %v", f, got, want)
		}
	}
}

func TestExceptionsByName(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", &fault{what: "TableExistsException: sales"})
	if !isException(err, "TableExistsException") || isException(err, "TableExists") || isException(nil, "TableExistsException") {
		t.Error("an exception was not recognized by its name")
	}
	if !isFault(err, refused) || isFault(err, lost, moved, busy) || isFault(errors.New("x"), refused) {
		t.Error("a fault was not recognized by its kind")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Error("an error has several lines")
	}
}
