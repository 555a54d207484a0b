package machine

import (
	"context"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// CheckTable checks the table of the logs.
func (c *Core) CheckTable() error {
	check := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CheckTable(ctx) }
	_, err := OnStore(c, "check table", CallTimeout, NoValue(check))
	return err
}

// Info reads the identity and time of a node.
func (c *Core) Info(node int) (quorum.Info, error) {
	return OnNode(c, node, "info", func(ctx context.Context, node quorum.Node) (quorum.Info, error) { return node.Info(ctx) })
}

// ReadMarker reads the marker of a run on a node.
func (c *Core) ReadMarker(node int, uid string) (quorum.Marker, error) {
	marker := spec.Marker(uid)
	return OnNode(c, node, "read marker", func(ctx context.Context, node quorum.Node) (quorum.Marker, error) {
		return node.ReadMarker(ctx, marker)
	})
}

// Leases reads the leases on a node whose keys begin with a prefix.
func (c *Core) Leases(node int, what, prefix string) ([]quorum.Holding, error) {
	return OnNode(c, node, what, func(ctx context.Context, node quorum.Node) ([]quorum.Holding, error) { return node.List(ctx, prefix) })
}

// Inspect queries the state of a list on a node.
func (c *Core) Inspect(node int, list lists.List) (lists.State, error) {
	return OnList(c, node, "inspect list", func(ctx context.Context, node lists.Node) (lists.State, error) { return node.Inspect(ctx, list) })
}
