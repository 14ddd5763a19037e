//! Payment (TPC-C clause 2.5).

use super::TpccError;
use super::statements::Statement;
use super::terminal::{Outcome, Terminal};

/// Characters of a customer's data.
const DATA_CHARACTERS: usize = 500;

impl Terminal {
    pub(super) async fn payment(&mut self) -> Result<Outcome, TpccError> {
        let (warehouse, district) = (self.warehouse, self.district());
        // In 15 of a hundred cases the customer belongs to another warehouse.
        let is_remote = self.random.percent(15) && self.scale.warehouses > 1;
        let (home, home_district) =
            if is_remote { (self.other_warehouse(), self.district()) } else { (warehouse, district) };
        let amount = i64::from(self.random.between(100, 500_000));
        let date = self.now();
        self.change(Statement::PayWarehouse, &[&warehouse, &amount], Some(1)).await?;
        let name: String = self.row(Statement::WarehouseAddress, &[&warehouse]).await?.get(5);
        self.change(Statement::PayDistrict, &[&warehouse, &district, &amount], Some(1)).await?;
        let district_name: String =
            self.row(Statement::DistrictAddress, &[&warehouse, &district]).await?.get(5);
        let customer = self.named_customer(home, home_district).await?;
        let credit: String = self.row(Statement::Customer, &[&home, &home_district, &customer]).await?.get(9);
        if credit == "BC" {
            let old: String =
                self.row(Statement::CustomerData, &[&home, &home_district, &customer]).await?.get(0);
            let mut data =
                format!("{customer} {home_district} {home} {district} {warehouse} {amount} | {old}");
            data.truncate(DATA_CHARACTERS);
            let given: super::terminal::Parameters<'_> = &[&home, &home_district, &customer, &amount, &data];
            self.change(Statement::PayCustomerWithData, given, Some(1)).await?;
        } else {
            self.change(Statement::PayCustomer, &[&home, &home_district, &customer, &amount], Some(1))
                .await?;
        }
        let data = format!("{name}    {district_name}");
        self.change(
            Statement::InsertHistory,
            &[&home_district, &home, &customer, &district, &warehouse, &date, &amount, &data],
            Some(1),
        )
        .await?;
        Ok(Outcome::Committed)
    }
}
