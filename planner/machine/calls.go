package machine

import (
	"context"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// CheckTable checks the table of the logs.
func (c *Core) CheckTable(then func(error)) {
	check := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CheckTable(ctx) }
	OnStore(c, "check table", CallTimeout, NoValue(check), func(_ any, err error) { then(err) })
}

// Info reads the identity and time of a node.
func (c *Core) Info(node int, then func(quorum.Info, error)) {
	OnNode(c, node, "info", func(ctx context.Context, node quorum.Node) (quorum.Info, error) { return node.Info(ctx) }, then)
}

// ReadMarker reads the marker of a run on a node.
func (c *Core) ReadMarker(node int, uid string, then func(quorum.Marker, error)) {
	marker := spec.Marker(uid)
	OnNode(c, node, "read marker", func(ctx context.Context, node quorum.Node) (quorum.Marker, error) {
		return node.ReadMarker(ctx, marker)
	}, then)
}

// Leases reads the leases on a node whose keys begin with a prefix.
func (c *Core) Leases(node int, what, prefix string, then func([]quorum.Holding, error)) {
	OnNode(c, node, what, func(ctx context.Context, node quorum.Node) ([]quorum.Holding, error) { return node.List(ctx, prefix) }, then)
}

// Inspect queries the state of a list on a node.
func (c *Core) Inspect(node int, list lists.List, then func(lists.State, error)) {
	OnList(c, node, "inspect list", func(ctx context.Context, node lists.Node) (lists.State, error) { return node.Inspect(ctx, list) }, then)
}
