package lru

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The map against a plain list of keys, the newest first, over random steps.
func TestKeysStandInTheOrderOfTheirLastUse(t *testing.T) {
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var m Map[int, int]
		var model []int
		values := map[int]int{}
		most := 0
		for step := range 400 {
			k := dice.IntN(12)
			at := slices.Index(model, k)
			switch dice.IntN(4) {
			case 0:
				m.Drop(k)
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
					delete(values, k)
				}
			case 1:
				if v := m.Get(k); (v != nil) != (at >= 0) || v != nil && *v != values[k] {
					t.Fatalf("seed %d step %d: %d is %v, want %v", seed, step, k, v, values[k])
				}
			default:
				v := m.Touch(k)
				if *v != values[k] {
					t.Fatalf("seed %d step %d: touched %d is %d, want %d", seed, step, k, *v, values[k])
				}
				*v, values[k] = step, step
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
				model = slices.Insert(model, 0, k)
			}
			most = max(most, len(model))
			var keys []int
			for k, v := range m.All() {
				if keys = append(keys, k); *v != values[k] {
					t.Fatalf("seed %d step %d: %d is %d, want %d", seed, step, k, *v, values[k])
				}
			}
			oldest, v := m.Oldest()
			switch {
			case !slices.Equal(keys, model), m.Len() != len(model), m.Rows() != most:
				t.Fatalf("seed %d step %d: %v in %d rows, want %v in %d", seed, step, keys, m.Rows(), model, most)
			case (v == nil) != (len(model) == 0), v != nil && oldest != model[len(model)-1]:
				t.Fatalf("seed %d step %d: the oldest is %d of %v", seed, step, oldest, model)
			}
		}
	}
}
