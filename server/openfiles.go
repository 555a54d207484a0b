package server

import (
	"cmp"
	"fmt"

	"salectl/executor/httpd"
	"salectl/spec"
)

// ownFiles is the number of files that the server itself has open: its streams, its listeners,
// those of the runtime, one connection of each listener that is about to be served, and some
// for short use, such as the lookup of a name.
const ownFiles = 24

// leastConnections is the minimum number of connections of buyers. A server with fewer would
// appear broken.
const leastConnections = 4

// Connections returns the maximum number of buyers' connections of a server: the requested
// number, or the limit of open files less those needed by the stores of the sales, the admin
// address and the process itself. So the number of buyers never blocks the ledger, the lock
// nodes and operators. 0 requests as many as possible; filesOf is backends.Files.
func Connections(requested int, sales []spec.Sale, filesOf func(spec.Sale) (int, error)) (int, error) {
	files, limited := openFiles()
	if !limited {
		return cmp.Or(requested, httpd.MostConnections), nil
	}
	reserved := ownFiles + httpd.AdminConnections
	for _, sale := range sales {
		n, err := filesOf(sale)
		if err != nil {
			return 0, err
		}
		reserved += n
	}
	left := files - reserved
	switch {
	case left < leastConnections:
		return 0, fmt.Errorf("%d files may be open, and %s need %d beside the connections of buyers: raise the limit (ulimit -n %d, LimitNOFILE=)",
			files, spec.Count(len(sales), "sale"), reserved, reserved+1024)
	case requested > left:
		return 0, fmt.Errorf("--connections %d: %d files may be open, of which %d are reserved: raise the limit (ulimit -n %d, LimitNOFILE=), or request at most %d",
			requested, files, reserved, reserved+requested, left)
	case requested > 0:
		return requested, nil
	}
	return min(left, httpd.MostConnections), nil
}
