package main

import (
	"fmt"

	"salectl/testdata/peers/internal/table"
)

// figures are all lines.
type figures struct {
	source, pipelined map[string]*table.Figure // by what the Redis keeps
	ours, beside      map[string]*table.Figure // beside the source, and beside that pipelined
	wait              *table.Figure
	waits             map[string]*table.Figure
	drained           *table.Figure

	table.Table
}

func newFigures() *figures {
	f := &figures{
		source: map[string]*table.Figure{}, pipelined: map[string]*table.Figure{},
		ours: map[string]*table.Figure{}, beside: map[string]*table.Figure{}, waits: map[string]*table.Figure{},
	}
	for _, keeps := range []persistence{inMemory, synced} {
		source := table.Figure{Name: fmt.Sprintf("grabs/s of the source, %s", keeps.name), Form: "%.0f"}
		if keeps.name != inMemory.name {
			source.Beside = inMemory.name
		}
		f.source[keeps.name] = f.Line(source)
		f.pipelined[keeps.name] = f.Line(table.Figure{Name: fmt.Sprintf("the same, pipelined by %d", inPipeline), Form: "%.0f",
			Beside: "one by one"})
		f.ours[keeps.name] = f.Line(table.Figure{Name: fmt.Sprintf("grabs/s of salectl, %s", keeps.name), Form: "%.0f", Beside: "the source"})
		f.beside[keeps.name] = f.Line(table.Figure{Name: "the same", Form: "%.0f", Beside: "the source, pipelined"})
	}
	f.wait = f.Line(table.Figure{Name: fmt.Sprintf("ms to a grab of the source, %d/s offered, p99", steady), Form: "%.2f",
		Beside: "calls that do nothing"})
	for _, keeps := range []persistence{inMemory, synced} {
		f.waits[keeps.name] = f.Line(table.Figure{
			Name: fmt.Sprintf("ms to a grab of salectl, %s, %d/s offered, p99", keeps.name, offered), Form: "%.2f",
			Beside: "calls that do nothing",
		})
	}
	f.drained = f.Line(table.Figure{
		Name: fmt.Sprintf("grabs/s drained into HBase, %s", synced.name), Form: "%.0f", Beside: "the grabs, meanwhile and before",
	})
	return f
}
