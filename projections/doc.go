// Package projections turns events into rows that can be thrown away and rebuilt. A Projection is a pure function from
// a fact (and the story of its request so far) to row changes; the Runner folds what the journal commits, coalesces
// the changes for a moment and hands them, with the new checkpoints, to a ReadModel, which stores both as one; Verify
// and Rebuild fold everything again beside the living rows.
//
// Laws that every projection passes (projections/lawtest): applied twice is applied once; any cut into batches gives
// the same rows; rebuilt equals live.
package projections
