use arras_keys::Key;
use arras_schemes::mope::memory::MemoryStore;
use arras_schemes::mope::{Form, Kind, Settings, Tree};
use arras_schemes::random::Randomness;
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Instant;
fn run<F: Future>(f: F) -> F::Output {
    let mut f = std::pin::pin!(f);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) {
            return r;
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let order = &a[2];
    let which = &a[3];
    let extra: u64 = a.get(4).map_or(0, |x| x.parse().unwrap());
    let value = |i: u64| -> Vec<u8> {
        let v = if order == "r" {
            let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        } else {
            i
        };
        v.to_be_bytes().to_vec()
    };
    let open = |v| {
        Tree::open(
            MemoryStore::default(),
            &Key::take_from(&mut [7; 32]),
            Settings { form: Form::Fixed(8), kind: Kind::Mope, verified: v },
            None,
            Randomness::default(),
        )
        .unwrap()
    };
    if which == "both" {
        let trees = [open(false), open(true)];
        let mut t = [0.0; 2];
        let mut i = 1;
        let mut last = [0.0; 2];
        while i <= n {
            let end = (i + 10_000).min(n + 1);
            for (k, tree) in trees.iter().enumerate() {
                let s = Instant::now();
                for j in i..end {
                    run(tree.encode(&[value(j)])).unwrap();
                }
                last[k] += s.elapsed().as_secs_f64();
            }
            i = end;
            for k in 0..2 {
                t[k] = last[k];
            }
            if (i - 1) % (n / 4).max(1) == 0 {
                println!(
                    "{}: {:.3} us {:.3} us ratio {:.3}",
                    i - 1,
                    t[0] / (i - 1) as f64 * 1e6,
                    t[1] / (i - 1) as f64 * 1e6,
                    t[1] / t[0]
                );
            }
        }
    } else {
        let tree = open(which == "v");
        if extra > 0 {
            let vs: Vec<Vec<u8>> = (1..=n).map(value).collect();
            for c in vs.chunks(50_000) {
                run(tree.encode(c)).unwrap();
            }
            for j in n + 1..=n + extra {
                run(tree.encode(&[value(j)])).unwrap();
            }
        } else {
            for j in 1..=n {
                run(tree.encode(&[value(j)])).unwrap();
            }
        }
    }
}
