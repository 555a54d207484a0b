package examples

import (
	"os/exec"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// follower keeps the orders of a script's sale.
type follower struct {
	shop    *shop
	process *exec.Cmd // nil: none runs
}

// scriptOrders is "orders start SALE|kill|same N|stop": the program that keeps the orders of
// sale.yaml is started, and killed or signalled to end; with same the table has so many orders, and
// of each what an export has.
func scriptOrders(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: orders start SALE|kill|same N|stop")
	}
	s := serversOf(ts)
	f := &s.orders
	switch {
	case args[0] == "start" && len(args) == 2:
		if f.shop == nil {
			f.shop = shopIn(s.t, args[1], ts.MkAbs("."))
			ts.Defer(func() { ts.Logf("the orders wrote:\n%s", f.shop.output()) })
		}
		f.process = f.shop.consumer()
		process := f.process
		ts.Defer(func() { kill(process) })
	case args[0] == "same" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		f.shop.same(n)
	case args[0] == "kill":
		kill(f.process)
	case args[0] == "stop":
		ts.Check(f.process.Process.Signal(syscall.SIGTERM))
		ts.Check(f.process.Wait())
	default:
		ts.Fatalf("orders: no such action: %q", args)
	}
}
