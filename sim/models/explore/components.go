package explore

// components returns the sets of states short of the goal between which one can go to
// and fro for ever without a fault, in the order of Tarjan's algorithm, which runs here
// with a stack of its own: a graph may be deeper than a goroutine's stack.
func (g *graph[S]) components(goal []bool) (parts [][]int32) {
	type frame struct{ state, step int32 }
	var (
		number = make([]int32, len(g.states)) // in the order of visits, from 1 on
		low    = make([]int32, len(g.states))
		on     = make([]bool, len(g.states))
		open   []int32
		calls  []frame
		count  int32
	)
	visit := func(i int32) {
		count++
		number[i], low[i], on[i] = count, count, true
		open = append(open, i)
		calls = append(calls, frame{i, g.first[i]})
	}
	for root := range g.states {
		if goal[root] || number[root] != 0 {
			continue
		}
		visit(int32(root))
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			i := f.state
			if f.step < g.first[i+1] {
				to, by := g.to[f.step], g.by[f.step]
				f.step++
				switch {
				case by == Fault || goal[to]:
				case number[to] == 0:
					visit(to)
				case on[to]:
					low[i] = min(low[i], number[to])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].state
				low[up] = min(low[up], low[i])
			}
			if low[i] != number[i] {
				continue
			}
			n := len(open) - 1
			for open[n] != i {
				n--
			}
			if len(open)-n > 1 { // a state has no step to itself
				parts = append(parts, append([]int32(nil), open[n:]...))
			}
			for _, member := range open[n:] {
				on[member] = false
			}
			open = open[:n]
		}
	}
	return parts
}
