package planner

import (
	"context"

	"salectl/backends/ledger"

	"salectl/backends/quorum"
	"salectl/spec"

	"salectl/backends/lists"
)

// checkTable checks the table of the logs.
func (c *core) checkTable(then func(error)) {
	check := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CheckTable(ctx) }
	onStore(c, "check table", callTimeout, noValue(check), func(_ any, err error) { then(err) })
}

// info reads the identity and time of a node.
func (c *core) info(node int, then func(quorum.Info, error)) {
	onNode(c, node, "info", func(ctx context.Context, node quorum.Node) (quorum.Info, error) { return node.Info(ctx) }, then)
}

// readMarker reads the marker of a run on a node.
func (c *core) readMarker(node int, uid string, then func(quorum.Marker, error)) {
	marker := spec.Marker(uid)
	onNode(c, node, "read marker", func(ctx context.Context, node quorum.Node) (quorum.Marker, error) {
		return node.ReadMarker(ctx, marker)
	}, then)
}

// leases reads the leases on a node whose keys begin with a prefix.
func (c *core) leases(node int, what, prefix string, then func([]quorum.Holding, error)) {
	onNode(c, node, what, func(ctx context.Context, node quorum.Node) ([]quorum.Holding, error) { return node.List(ctx, prefix) }, then)
}

// inspect queries the state of a list on a node.
func (c *core) inspect(node int, list lists.List, then func(lists.State, error)) {
	onList(c, node, "inspect list", func(ctx context.Context, node lists.Node) (lists.State, error) { return node.Inspect(ctx, list) }, then)
}
