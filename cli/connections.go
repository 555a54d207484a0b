package cli

import (
	"fmt"

	"salectl/executor/httpd"
	"salectl/spec"
)

// ownFiles is how many files serve has open for itself: its streams, listeners, what
// the runtime needs, one connection of each listener that is about to be served, and
// some for what comes and goes, such as a look-up of a name.
const ownFiles = 24

// leastConnections is how many connections of buyers are served at least. With fewer
// nobody could tell a server from a broken one.
const leastConnections = 4

// connections returns how many connections of buyers serve has at most: as many as
// were asked for, or as many as there may be open files, less what the stores of the
// sales, the admin address and the process itself need. So however many buyers come,
// the ledger, the lock nodes and operators are still reached.
func (d drivers) connections(asked int, sales []spec.Sale) (int, error) {
	files, limited := openFiles()
	if !limited {
		if asked == 0 {
			asked = httpd.MostConnections
		}
		return asked, nil
	}
	reserved := ownFiles + httpd.AdminConnections
	for _, sale := range sales {
		n, err := d.files(sale)
		if err != nil {
			return 0, err
		}
		reserved += n
	}
	left := files - reserved
	switch {
	case left < leastConnections:
		return 0, fmt.Errorf("%d files may be open, and %s need %d beside the connections of buyers: raise the limit (ulimit -n %d, LimitNOFILE=)",
			files, count(len(sales), "sale"), reserved, reserved+1024)
	case asked > left:
		return 0, fmt.Errorf("--connections %d: %d files may be open, of which %d are reserved: raise the limit (ulimit -n %d, LimitNOFILE=), or ask for at most %d",
			asked, files, reserved, reserved+asked, left)
	case asked > 0:
		return asked, nil
	}
	return min(left, httpd.MostConnections), nil
}
