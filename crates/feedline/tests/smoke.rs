use feedline::Dataset;
use feedline::element::{Spec, DType, Tensor, Value};
#[test]
fn chain() {
    let ds = Dataset::range(100_000).unwrap().map_fn(Spec::scalar(DType::Int64), |e| {
        let x: i64 = e[0].tensor().item();
        if x == 77 { return Err(feedline::Error::data("no")) }
        Ok(smallvec::smallvec![Value::Tensor(Tensor::scalar(x*2+1))])
    }).unwrap().batch(128, false).unwrap();
    println!("{ds:?}");
    let mut sum=0; let mut errs=0; let mut n=0;
    for b in ds.iter().unwrap() { match b { Ok(b)=> {n+=1; sum+=b[0].tensor().items::<i64>().iter().sum::<i64>()}, Err(e)=> {errs+=1; println!("{e}")} } }
    println!("{n} {sum} {errs}");
    assert_eq!(errs, 1);
}
#[test]
fn early_drop() {
    for i in 0..500 {
        let ds = Dataset::range(1_000_000).unwrap().batch(7, false).unwrap().batch(3, true).unwrap();
        let mut it = ds.iter().unwrap();
        for _ in 0..i % 50 { it.next().unwrap().unwrap(); }
    }
}
